//! Who may start now. Reads only.

use super::Sessions;
use crate::base::rules::SessionRules;
use crate::base::{Level, MonoTime, SessionClass};

/// Who wants a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub class: SessionClass,
    /// A limit ended its last run: it is not tried inside a limit again, whatever its class.
    pub limited: bool,
}

/// What the applied level of `cc`, holds included, says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    pub level: Level,
    /// The level admits its class.
    pub admits: bool,
}

/// Why not, in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Sessions {
    /// Whether one more may start. `Ok(true)`: as a trial, let in alone to find out whether a trouble is over.
    pub fn admits(&self, want: Want, applied: Applied, now: MonoTime, rules: &SessionRules) -> Result<bool, Refused> {
        let refused = |why: &str| Err(Refused(why.to_owned()));
        let foreground = want.class == SessionClass::Foreground;
        if self.active().count() >= rules.active_max as usize {
            return refused("every slot is taken");
        }
        let others = self.active().filter(|(_, active)| active.ask.class != SessionClass::Foreground).count();
        if !foreground && others >= rules.active_max.saturating_sub(rules.foreground_reserve) as usize {
            return refused("the slots that are left are kept for foreground");
        }
        // Only somebody who sits there may try again inside a limit.
        let patient = !foreground || want.limited;
        if let Some((window, _)) = self.limits.last()
            && patient
        {
            return Err(Refused(format!("the limit {window:?} is in force")));
        }
        if !foreground && self.hour.is_used_up(now, rules) {
            return refused("the hour's session budget is used up");
        }
        if want.class == SessionClass::Background && self.hour.is_throttled() {
            return refused("the hour's session budget is nearly used up");
        }
        let unavailable = self.proof.is_unavailable() || applied.level == Level::Unavailable;
        if unavailable || (self.proof.is_after_limit() && patient) {
            if self.trial_under_way() {
                return refused("another session is being tried");
            }
            let paced = self.proof.is_failing() || !self.proof.is_unavailable();
            if unavailable && paced && self.proof.next_trial(now, rules).is_some() {
                return refused("sessions fail to start; the next is tried soon");
            }
            return Ok(true);
        }
        if !applied.admits {
            return Err(Refused(format!("cc is held at {}", applied.level)));
        }
        Ok(false)
    }
}
