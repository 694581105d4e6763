use super::*;
use crate::base::WallTime;

const COALESCE: Span = Span::from_secs(5);

#[derive(Default)]
struct Life(Notices);

impl Life {
    fn to(&mut self, s: u64, axis: Axis, to: Level) {
        self.timer(s);
        self.0.level_changed(axis, to, Level::Normal, "a cause", MonoTime(s * 1_000), COALESCE);
    }

    fn trip(&mut self, s: u64, why: OpenWhy) {
        let now = MonoTime(s * 1_000);
        self.0.breaker_opened(&EntryName::new("a"), Axis::Cloud, Level::Fallback, why, now, COALESCE);
    }

    /// What the timer makes at `s`, as occasions.
    fn timer(&mut self, s: u64) {
        while self.0.due().is_some_and(|due| due.ms() <= s * 1_000) {
            self.0.timer(MonoTime(s * 1_000));
        }
    }

    fn sent(&mut self, until_s: u64) -> Vec<String> {
        self.timer(until_s);
        let mut sent = Vec::new();
        while let Some(notice) = self.0.next() {
            sent.push(notice.occasion.clone());
            self.0.done();
        }
        sent
    }
}

#[test]
fn an_outage_of_ninety_minutes_is_two_messages() {
    // F123: a checker that is started anew every 30 s told it each time, and never that it was over.
    let mut life = Life::default();
    life.to(10, Axis::Cloud, Level::Offline);
    assert_eq!(life.0.due(), Some(MonoTime(15_000)));
    assert_eq!(life.sent(15), ["cloud 10000 OFFLINE"]);
    for restart in 0..180 {
        let stored = serde_json::to_string(&life.0).unwrap();
        life = Life(serde_json::from_str(&stored).unwrap());
        life.0.restore(MonoTime((20 + 30 * restart) * 1_000), COALESCE);
        assert_eq!(life.sent(20 + 30 * restart), [""; 0]);
    }
    life.to(5_410, Axis::Cloud, Level::Normal);
    life.timer(5_415);
    assert_eq!(life.0.next().unwrap().text, "cloud is back at NORMAL after 1h30m.");
    assert_eq!(life.sent(5_415), ["cloud 10000 up"]);
}

#[test]
fn each_episode_is_told_and_each_worse_level_of_one_once() {
    // F124: only the first of many episodes was announced.
    let mut life = Life::default();
    for start in [0, 1_000, 2_000] {
        life.to(start, Axis::Embedding, Level::Unavailable);
        life.to(start + 300, Axis::Embedding, Level::Normal);
    }
    assert_eq!(life.sent(3_000).len(), 6);
    life.to(4_000, Axis::Cloud, Level::Reduced);
    life.to(4_100, Axis::Cloud, Level::Fallback);
    life.to(4_200, Axis::Cloud, Level::Reduced);
    life.to(4_300, Axis::Cloud, Level::Offline);
    life.to(4_400, Axis::Cloud, Level::Essential);
    assert_eq!(life.sent(5_000), ["cloud 4000000 REDUCED", "cloud 4000000 OFFLINE"]);
}

#[test]
fn what_changes_within_five_seconds_on_any_axis_is_one_notice() {
    let mut life = Life::default();
    life.to(1, Axis::Cloud, Level::Fallback);
    life.to(2, Axis::Cloud, Level::Reduced);
    life.to(4, Axis::Cloud, Level::Offline);
    life.to(6, Axis::Embedding, Level::Unavailable);
    life.timer(7);
    let notice = life.0.next().unwrap().clone();
    assert_eq!(notice.occasion, "cloud 1000 REDUCED");
    assert_eq!(notice.also.len(), 2);
    assert_eq!(
        notice.text,
        "cloud is OFFLINE: a cause. No cloud model can be reached; all background work waits.\n\
         embedding is UNAVAILABLE: a cause. What needs it waits."
    );
    life.to(8, Axis::Memory, Level::Down);
    assert_eq!(life.sent(20).len(), 2);
}

#[test]
fn mild_levels_and_a_baseline_are_told_nobody() {
    let mut life = Life::default();
    life.to(1, Axis::Cloud, Level::Fallback);
    life.to(2, Axis::Embedding, Level::Queued);
    life.to(3, Axis::Cc, Level::Throttled);
    life.to(9, Axis::Cloud, Level::Normal);
    let off = Level::FtsOnly;
    life.0.level_changed(Axis::Memory, off, off, "embeddings are off", MonoTime(10_000), COALESCE);
    life.0.level_changed(Axis::Memory, Level::Normal, off, "", MonoTime(11_000), COALESCE);
    assert_eq!((life.0.due(), life.sent(60).len()), (None, 0));
}

#[test]
fn a_dip_that_is_over_before_it_is_told_is_told_as_over() {
    let mut life = Life::default();
    life.to(10, Axis::Embedding, Level::Unavailable);
    life.to(13, Axis::Embedding, Level::Normal);
    life.timer(15);
    assert_eq!(life.0.next().unwrap().text, "embedding was UNAVAILABLE for 3s (a cause) and is back at NORMAL.");
}

#[test]
fn the_fifth_trip_without_closing_is_told_once() {
    let mut life = Life::default();
    life.trip(0, OpenWhy::Consecutive);
    for s in [200, 500, 900] {
        life.trip(s, OpenWhy::TrialFailed);
        life.trip(s + 1, OpenWhy::NoVerdict);
        life.trip(s + 2, OpenWhy::Restored);
    }
    assert_eq!(life.0.due(), None);
    life.trip(1_800, OpenWhy::TrialFailed);
    life.trip(3_600, OpenWhy::TrialFailed);
    life.timer(3_700);
    assert!(life.0.next().unwrap().text.starts_with("a keeps failing: it was given up 5 times in 30m "));
    assert_eq!(life.sent(3_700), ["cloud 0 tripping a"]);
    life.0.breaker_closed(&EntryName::new("a"));
    life.trip(4_000, OpenWhy::Rate);
    assert_eq!(life.0.due(), None);
}

#[test]
fn what_was_gathered_before_a_restart_is_still_told_and_not_later_than_ever() {
    let mut life = Life::default();
    life.to(10, Axis::Cloud, Level::Reduced);
    let stored = serde_json::to_string(&life.0).unwrap();
    let mut life = Life(serde_json::from_str(&stored).unwrap());
    life.0.restore(MonoTime(2_000), COALESCE);
    assert_eq!(life.0.due(), Some(MonoTime(7_000)));
    assert_eq!(life.sent(8), ["cloud 10000 REDUCED"]);
}

#[test]
fn the_list_of_what_was_not_delivered_is_bounded_and_names_nothing_twice() {
    let mut notices = Notices::default();
    for n in 0..60 {
        for _ in 0..2 {
            let (at, wall, kind) = (MonoTime(n), WallTime(0), UndeliveredKind::Notice);
            let (key, what, why) = (format!("notice {n}"), "the same words".into(), "down".into());
            notices.list(Undelivered { kind, key, at, wall, what, why });
        }
    }
    assert_eq!(notices.undelivered().count(), LISTED_MAX);
    assert_eq!(notices.undelivered().next().map(|first| first.key.as_str()), Some("notice 10"));
}
