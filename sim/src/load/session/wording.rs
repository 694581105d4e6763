//! What the Claude Code command prints, version by version.
//!
//! Written from reports of what people saw, and from nothing that reads it. Times are shown as the command shows them: on
//! the hour without minutes, a day only for the weekly windows, rounded up to the minute.
//! **Source:** protocols.md C.3.

use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::json;
use squall::base::WallTime;

const NEWEST: &str = "2.1";

/// A usage limit as the server states it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Limit {
    pub window: String,
    /// From the start of the run.
    resets_ms: Option<u64>,
    message: String,
    zone: String,
}

pub fn begins(client: &str) -> String {
    json!({"type": "system", "subtype": "init", "session_id": client, "model": "claude-opus-4"}).to_string()
}

pub fn works() -> String {
    let text = json!([{"type": "text", "text": "Working on it."}]);
    json!({"type": "assistant", "message": {"model": "claude-opus-4", "content": text}}).to_string()
}

pub fn done(exit: u8) -> String {
    let failed = exit != 0;
    let text = if failed { "The work could not be done." } else { "Done." };
    json!({"type": "result", "subtype": "success", "is_error": failed, "result": text}).to_string()
}

pub fn signed_out(status: u16) -> String {
    format!(
        "API Error: {status} {}",
        json!({"type": "error", "error": {"type": "authentication_error", "message": "OAuth token revoked"}})
    )
}

pub fn cannot_sign_in(why: &str) -> String {
    format!("Failed to authenticate. API Error: {why}")
}

pub fn gave_up(why: &str) -> String {
    format!("API Error: {why} Repeated errors, giving up.")
}

impl Limit {
    pub fn read(body: &[u8]) -> Option<Limit> {
        serde_json::from_slice(body).ok()
    }

    /// Who is ended without a word has worked before; who comes anew is told.
    pub fn said_to_a_newcomer(&self) -> Limit {
        let message = if self.message == "silent" { NEWEST } else { self.message.as_str() };
        Limit { message: message.to_owned(), ..self.clone() }
    }

    /// The lines, and the exit code (`None`: killed). `starts_at`: the wall clock at the start of the run.
    pub fn words(&self, starts_at: WallTime) -> (Vec<String>, Option<i32>) {
        let resets_at = self.resets_ms.map(|ms| starts_at.0.saturating_add_unsigned(ms));
        let resets = |text: String| format!(" · resets {text}");
        let utc = || TimeZone::UTC;
        match self.message.as_str() {
            "1.0.31" => {
                let at = resets_at.map(|at| format!("|{}", at.div_euclid(1_000) + i64::from(at.rem_euclid(1_000) > 0)));
                (vec![format!("Claude AI usage limit reached{}", at.unwrap_or_default())], Some(1))
            }
            "1.0.105" => {
                let name = match self.window.as_str() {
                    "five_hour" => "5-hour limit",
                    "weekly" => "Weekly limit",
                    _ => "Opus weekly limit",
                };
                let at = resets_at.map(|at| format!(" ∙ resets {}", self.shown(at, &utc(), ", ")));
                (vec![format!("{name} reached{}", at.unwrap_or_default())], Some(1))
            }
            "2.1-session" => {
                let name = match self.window.as_str() {
                    "five_hour" => "session limit",
                    "weekly" => "weekly limit",
                    _ => "Opus limit",
                };
                let at = resets_at.map(|at| resets(self.shown_with_zone(at)));
                (vec![format!("You've hit your {name}{}", at.unwrap_or_default())], Some(1))
            }
            "stream-json" => (self.streamed(resets_at.map(|at| at.div_euclid(1_000)), resets_at), Some(1)),
            "stream-json-ms" => (self.streamed(resets_at, resets_at), Some(1)),
            "silent-cap" => {
                let event = self.event(resets_at.map(|at| at.div_euclid(1_000)));
                let empty = json!({"type": "result", "subtype": "success", "is_error": false, "result": ""});
                (vec![event, empty.to_string()], Some(0))
            }
            "silent" => (Vec::new(), None),
            "no-reset" => (vec!["You've hit your usage limit".to_owned()], Some(1)),
            "daily" => {
                let object = json!({"error_type": "grace_daily_limit_reached", "message": "Daily limit reached."});
                (vec![format!("API Error: 429 {object}")], Some(1))
            }
            // The newest.
            _ => {
                let at = resets_at.map(|at| resets(self.shown_with_zone(at)));
                let lines = vec![
                    format!("You've hit your limit{}", at.unwrap_or_default()),
                    "/upgrade to increase your usage limit.".to_owned(),
                ];
                (lines, Some(1))
            }
        }
    }

    fn streamed(&self, stated: Option<i64>, resets_at: Option<i64>) -> Vec<String> {
        let at = resets_at.map(|at| format!(" · resets {}", self.shown_with_zone(at)));
        let text = format!("You've hit your limit{}", at.unwrap_or_default());
        let result = json!({"type": "result", "subtype": "success", "is_error": true, "result": text});
        vec![self.event(stated), result.to_string()]
    }

    fn event(&self, resets_at: Option<i64>) -> String {
        let of = match self.window.as_str() {
            "five_hour" => "five_hour",
            "weekly" => "seven_day",
            _ => "seven_day_opus",
        };
        let info = json!({"status": "rejected", "resetsAt": resets_at, "rateLimitType": of, "isUsingOverage": false});
        json!({"type": "rate_limit_event", "rate_limit_info": info}).to_string()
    }

    fn shown_with_zone(&self, at: i64) -> String {
        let zone = jiff::tz::db().get(&self.zone).expect("the drill was checked");
        format!("{} ({})", self.shown(at, &zone, " at "), self.zone)
    }

    fn shown(&self, at: i64, zone: &TimeZone, between: &str) -> String {
        const MINUTE: i64 = 60_000;
        let minute = at.div_euclid(MINUTE) + i64::from(at.rem_euclid(MINUTE) > 0);
        let at = jiff::Timestamp::from_millisecond(minute * MINUTE).expect("drills last some days");
        let at = at.to_zoned_datetime(zone.clone());
        let time = if at.minute() == 0 { at.strftime("%-I%P") } else { at.strftime("%-I:%M%P") }.to_string();
        if self.window == "five_hour" { time } else { format!("{}{between}{time}", at.strftime("%b %-d")) }
    }
}

/// An informational event: nothing is limited.
pub fn allowed() -> String {
    let info = json!({"status": "allowed", "rateLimitType": "five_hour", "utilization": 0.4, "isUsingOverage": false});
    json!({"type": "rate_limit_event", "rate_limit_info": info}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-04-20T12:00:00Z.
    const NOON: WallTime = WallTime(1_776_686_400_000);

    fn words(window: &str, message: &str, zone: &str, resets_ms: Option<u64>) -> Vec<String> {
        let limit = Limit { window: window.into(), resets_ms, message: message.into(), zone: zone.into() };
        limit.words(NOON).0
    }

    #[test]
    fn messages_look_as_people_reported_them() {
        const HOUR: u64 = 3_600_000;
        let first = |window, message, zone, ms| words(window, message, zone, Some(ms)).remove(0);
        assert_eq!(first("five_hour", "1.0.31", "UTC", HOUR), "Claude AI usage limit reached|1776690000");
        assert_eq!(first("five_hour", "1.0.105", "UTC", 14 * HOUR), "5-hour limit reached ∙ resets 2am");
        assert_eq!(
            first("five_hour", "2.1", "Asia/Shanghai", 23 * HOUR),
            "You've hit your limit · resets 7pm (Asia/Shanghai)"
        );
        assert_eq!(
            first("weekly", "2.1", "America/Recife", 79 * HOUR),
            "You've hit your limit · resets Apr 23 at 4pm (America/Recife)"
        );
        assert_eq!(
            first("five_hour", "2.1-session", "UTC", 16 * HOUR + 9 * 60_000 + 1),
            "You've hit your session limit · resets 4:10am (UTC)",
            "rounded up"
        );
        assert_eq!(first("weekly", "1.0.105", "UTC", 79 * HOUR), "Weekly limit reached ∙ resets Apr 23, 7pm");
        assert_eq!(words("weekly", "1.0.105", "UTC", None), ["Weekly limit reached"]);
    }

    #[test]
    fn every_wording_that_a_drill_can_name_is_one_of_its_own() {
        let all = [
            "1.0.31",
            "1.0.105",
            "2.1",
            "2.1-session",
            "stream-json",
            "stream-json-ms",
            "no-reset",
            "daily",
            "silent-cap",
            "silent",
        ];
        let said: std::collections::BTreeSet<_> =
            all.into_iter().map(|message| words("five_hour", message, "UTC", Some(7_200_000))).collect();
        assert_eq!(said.len(), all.len());
        assert!(words("five_hour", "silent", "UTC", None).is_empty());
    }
}
