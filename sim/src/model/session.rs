//! The session budget: slots, starts in the rolling hour, limits, what is not yet confirmed, and what follows for the
//! level of `cc` and for who may be started.
//!
//! **Units:** milliseconds. **Source:** engine.md 2.1 (row cc), 6.

use squall::base::rules::SessionRules;
use squall::base::{Level, SessionClass, SessionOutcome};
use std::collections::{BTreeMap, VecDeque};

pub const HOUR_MS: u64 = 3_600_000;
/// Shares of a budget are not exact numbers.
const HAIR: f64 = 1e-9;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub class: SessionClass,
    pub trial: bool,
    pub started_ms: u64,
    pub answered: bool,
    pub limited: bool,
    /// Number of the entry that started it.
    pub n: u64,
}

impl Slot {
    pub fn new(class: SessionClass, trial: bool, started_ms: u64, n: u64) -> Slot {
        Slot { class, trial, started_ms, answered: false, limited: false, n }
    }
}

/// Something of a session that does not fit its story so far; a sentence.
pub type Wrong = String;

#[derive(Clone, Debug)]
pub struct Sessions {
    rules: SessionRules,
    slots: BTreeMap<u64, Slot>,
    /// Of the last hour, in order.
    starts: VecDeque<u64>,
    throttled: bool,
    /// By window: when it is over, by the newest statement.
    limits: BTreeMap<String, u64>,
    /// Answers since the last limit was over; `None`: no limit is unconfirmed.
    after_limit: Option<u32>,
    /// Failed starts in a row, and when the newest of them began.
    failures: u32,
    failed_ms: u64,
    /// Starts failed too often in a row: since when, and the answers since then.
    after_failures: Option<(u64, u32)>,
    last_trial: Option<u64>,
}

impl Sessions {
    pub fn new(rules: &SessionRules) -> Sessions {
        Sessions {
            rules: rules.clone(),
            slots: BTreeMap::new(),
            starts: VecDeque::new(),
            throttled: false,
            limits: BTreeMap::new(),
            after_limit: None,
            failures: 0,
            failed_ms: 0,
            after_failures: None,
            last_trial: None,
        }
    }

    pub fn with_rules(&mut self, rules: &SessionRules) {
        self.rules = rules.clone();
    }

    pub fn rules(&self) -> &SessionRules {
        &self.rules
    }

    pub fn slot(&self, session: u64) -> Option<&Slot> {
        self.slots.get(&session)
    }

    pub fn slots(&self) -> impl Iterator<Item = (u64, &Slot)> {
        self.slots.iter().map(|(session, slot)| (*session, slot))
    }

    /// Forgets what has left the rolling hour.
    pub fn now(&mut self, now: u64) {
        while self.starts.front().is_some_and(|start| start + HOUR_MS <= now) {
            self.starts.pop_front();
        }
        let count = self.starts.len() as f64;
        if self.throttled && count + HAIR < self.share(self.rules.throttle_end) {
            self.throttled = false;
        }
    }

    fn budget(&self) -> Option<usize> {
        (self.rules.starts_per_hour > 0).then_some(self.rules.starts_per_hour as usize)
    }

    /// A share of the budget. A budget of nothing is none.
    fn share(&self, share: f64) -> f64 {
        self.budget().map_or(f64::INFINITY, |budget| budget as f64 * share)
    }

    pub fn is_spent(&self) -> bool {
        self.budget().is_some_and(|budget| self.starts.len() >= budget)
    }

    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Until when a limit is in force by the newest statements.
    pub fn limited_until(&self) -> Option<u64> {
        self.limits.values().max().copied()
    }

    pub fn in_force(&self, now: u64) -> bool {
        self.limited_until().is_some_and(|until| now < until)
    }

    /// Answers so far, while a limit is over and not yet confirmed gone.
    pub fn confirming(&self, now: u64) -> Option<u32> {
        self.after_limit.filter(|_| !self.in_force(now))
    }

    /// Starts fail, and none has been answered since.
    pub fn is_failing(&self) -> bool {
        self.after_failures.is_some_and(|(_, answers)| answers == 0)
    }

    /// Starts failed, and it is not proven that they work again: everyone is let in alone.
    pub fn is_unproven(&self) -> bool {
        self.after_failures.is_some()
    }

    /// The best and the worst level that fit. Starts that work again and are not proven are out of UNAVAILABLE, but not yet
    /// back; what that is called is left open.
    pub fn range_at(&mut self, now: u64) -> (Level, Level) {
        self.now(now);
        let level = self.level(now);
        (level, if self.is_unproven() { Level::Unavailable } else { level })
    }

    pub fn level(&self, now: u64) -> Level {
        if self.is_failing() {
            Level::Unavailable
        } else if self.is_unproven() || self.after_limit.is_some() || self.in_force(now) || self.is_spent() {
            Level::RateLimited
        } else if self.throttled {
            Level::Throttled
        } else {
            Level::Normal
        }
    }

    /// What is wrong with starting it now, each a sentence; then it is started.
    pub fn start(&mut self, session: u64, slot: Slot, now: u64) -> Vec<Wrong> {
        self.now(now);
        let mut wrong = Vec::new();
        let foreground = slot.class == SessionClass::Foreground;
        let class = slot.class.name();
        if self.slots.contains_key(&session) {
            wrong.push(format!("session {session} is started while it holds a slot"));
        }
        let active = self.slots.len() as u64 + 1;
        if active > u64::from(self.rules.active_max) {
            wrong.push(format!("{active} sessions are active, the cap is {}", self.rules.active_max));
        }
        let others = self.others() + u64::from(!foreground);
        if !foreground && others > self.open_to_others() {
            let reserve = self.rules.foreground_reserve;
            wrong.push(format!("{class} session {session} takes one of the {reserve} slots kept for foreground"));
        }
        if self.is_unproven() {
            if !slot.trial {
                wrong.push(format!("session {session} is started, not tried, though starts fail"));
            } else if let Some((other, _)) = self.trial() {
                wrong.push(format!("session {session} is tried while the trial {other} is not answered"));
            }
            let paced = self.last_trial.filter(|_| self.is_failing());
            if let Some(last) = paced.filter(|last| now < last + self.rules.trial_every.ms()) {
                wrong
                    .push(format!("session {session} is tried {} ms after the last one while UNAVAILABLE", now - last));
            }
        } else if !foreground && self.in_force(now) {
            let until = self.limited_until().unwrap_or(now);
            wrong.push(format!("{class} session {session} is started while a limit is in force until {until} ms"));
        } else if !foreground && let Some(answers) = self.confirming(now) {
            if !slot.trial {
                let all = self.rules.confirmations;
                wrong.push(format!(
                    "{class} session {session} is started after {answers} of {all} answers since a limit"
                ));
            } else if let Some((other, _)) = self.trial() {
                wrong.push(format!("session {session} is tried while the trial {other} is not answered"));
            }
        }
        if !foreground && self.is_spent() {
            let spent = self.starts.len();
            wrong.push(format!("{class} session {session} is started with {spent} starts in the hour"));
        }
        if slot.class == SessionClass::Background && self.throttled {
            let spent = self.starts.len();
            wrong.push(format!("background session {session} is started while throttled ({spent} starts in the hour)"));
        }
        if slot.trial {
            self.last_trial = Some(now);
        }
        self.slots.insert(session, slot);
        self.starts.push_back(now);
        self.throttled |= self.starts.len() as f64 + HAIR >= self.share(self.rules.throttle_at);
        wrong
    }

    /// A trial that is still to be answered.
    fn trial(&self) -> Option<(u64, &Slot)> {
        self.slots().find(|(_, slot)| slot.trial && !slot.answered && !slot.limited)
    }

    fn others(&self) -> u64 {
        self.slots.values().filter(|slot| slot.class != SessionClass::Foreground).count() as u64
    }

    fn open_to_others(&self) -> u64 {
        u64::from(self.rules.active_max.saturating_sub(self.rules.foreground_reserve))
    }

    /// Evidence that sessions work: of a trouble, only of one that began after it was over (or, for starts that fail,
    /// noticed).
    pub fn answer(&mut self, session: u64) {
        let Some(slot) = self.slots.get_mut(&session) else { return };
        slot.answered = true;
        let started_ms = slot.started_ms;
        self.works(started_ms);
        if let Some((since, answers)) = &mut self.after_failures
            && started_ms >= *since
        {
            *answers += 1;
            if *answers >= self.rules.confirmations {
                self.after_failures = None;
            }
        }
        let over_ms = self.limited_until().unwrap_or(0);
        if let Some(answers) = &mut self.after_limit
            && started_ms >= over_ms
        {
            *answers += 1;
            if *answers >= self.rules.confirmations {
                self.after_limit = None;
                self.limits.clear();
            }
        }
    }

    /// A session of that age runs or ran: starts no longer fail in a row.
    fn works(&mut self, started_ms: u64) {
        if started_ms >= self.failed_ms {
            self.failures = 0;
        }
    }

    /// Its slot is free; what it was.
    pub fn end(&mut self, session: u64, outcome: SessionOutcome, now: u64) -> Option<Slot> {
        let slot = self.slots.remove(&session)?;
        match outcome {
            SessionOutcome::NotStarted => {
                self.failures += 1;
                self.failed_ms = self.failed_ms.max(slot.started_ms);
                match &mut self.after_failures {
                    Some((_, answers)) => *answers = 0,
                    None if self.failures >= self.rules.failed_starts_max => self.after_failures = Some((now, 0)),
                    None => {}
                }
            }
            SessionOutcome::Done | SessionOutcome::Failed | SessionOutcome::Limited | SessionOutcome::Lost => {}
        }
        Some(slot)
    }

    pub fn limit(&mut self, session: u64, window: &str, until: u64) {
        if let Some(slot) = self.slots.get_mut(&session) {
            slot.limited = true;
            let started_ms = slot.started_ms;
            self.works(started_ms); // It was let in, and told that there is a limit.
        }
        self.limits.insert(window.to_owned(), until);
        self.after_limit = Some(0);
    }

    /// From when on one of this class could be started if nothing else happens, at `from` at the earliest; `None`: not
    /// before something else happens.
    ///
    /// `limited`: a limit ended its last run, so that it is not tried inside of one again, whatever its class.
    pub fn opens_at(&self, class: SessionClass, limited: bool, from: u64) -> Option<u64> {
        let foreground = class == SessionClass::Foreground;
        let free = (self.slots.len() as u64) < u64::from(self.rules.active_max)
            && (foreground || self.others() < self.open_to_others());
        if !free {
            return None;
        }
        let mut at = from;
        let patient = !foreground || limited;
        if (self.is_unproven() || (patient && self.after_limit.is_some())) && self.trial().is_some() {
            return None;
        }
        if self.is_failing() {
            at = at.max(self.last_trial.map_or(0, |last| last + self.rules.trial_every.ms()));
        }
        if patient && self.after_limit.is_some() {
            at = at.max(self.limited_until().unwrap_or(0));
        }
        if !foreground && let Some(budget) = self.budget() {
            at = at.max(self.falls_below(budget as f64));
            if class == SessionClass::Background && self.throttled {
                at = at.max(self.falls_below(self.share(self.rules.throttle_end)));
            }
        }
        Some(at)
    }

    /// When fewer than `count` starts are left in the rolling hour, if nothing is started meanwhile.
    fn falls_below(&self, count: f64) -> u64 {
        // Of `n` starts the first `leave` have to leave the hour.
        let n = self.starts.len();
        let leave = (0..=n).find(|leave| (n - leave) as f64 + HAIR < count).unwrap_or(n);
        if leave == 0 { 0 } else { self.starts[leave - 1] + HOUR_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionClass::{Background, Foreground, Reflection};

    fn slot(class: SessionClass, started_ms: u64, trial: bool) -> Slot {
        Slot::new(class, trial, started_ms, 0)
    }

    fn sessions() -> Sessions {
        Sessions::new(&SessionRules::default())
    }

    fn start(sessions: &mut Sessions, session: u64, class: SessionClass, now: u64) -> Vec<Wrong> {
        sessions.start(session, slot(class, now, false), now)
    }

    #[test]
    fn the_hour_is_throttled_at_16_spent_at_20_and_forgets_exactly_after_an_hour() {
        let mut of = sessions();
        for i in 0..20 {
            of.start(i, slot(Foreground, i, false), i);
            of.end(i, SessionOutcome::Done, i);
            let expected = match i + 1 {
                ..16 => Level::Normal,
                16..20 => Level::Throttled,
                _ => Level::RateLimited,
            };
            assert_eq!(of.level(i), expected, "{}", i + 1);
        }
        assert_eq!(of.opens_at(Foreground, false, 20), Some(20));
        assert_eq!(of.opens_at(Reflection, false, 20), Some(HOUR_MS));
        assert_eq!(of.opens_at(Background, false, 20), Some(HOUR_MS + 8), "eleven are left then");
        for (now, level) in [(HOUR_MS, Level::Throttled), (HOUR_MS + 7, Level::Throttled), (HOUR_MS + 8, Level::Normal)]
        {
            of.now(now);
            assert_eq!(of.level(now), level, "{now}");
        }
    }

    #[test]
    fn a_limit_is_gone_after_its_reset_and_three_answers() {
        let mut of = sessions();
        start(&mut of, 1, Background, 0);
        of.limit(1, "five_hour", 1_000);
        of.end(1, SessionOutcome::Limited, 5);
        assert_eq!((of.level(10), of.opens_at(Background, false, 10)), (Level::RateLimited, Some(1_000)));
        assert!(!start(&mut of, 2, Reflection, 999).is_empty());
        of.answer(2);
        of.end(2, SessionOutcome::Done, 999);
        for i in 3..6 {
            assert_eq!(of.level(1_000), Level::RateLimited);
            assert_eq!(of.start(i, slot(Background, 1_000, true), 1_000), Vec::<Wrong>::new());
            assert_eq!(of.opens_at(Background, false, 1_000), None, "one at a time");
            of.answer(i);
        }
        assert_eq!(of.level(1_000), Level::Normal);
        assert_eq!(of.limited_until(), None);
    }

    #[test]
    fn three_failed_starts_in_a_row_are_unavailable_and_three_answers_end_it() {
        let mut of = sessions();
        start(&mut of, 9, Foreground, 0);
        for i in 0..3 {
            start(&mut of, i, Foreground, i + 1);
            of.end(i, SessionOutcome::NotStarted, i + 1);
            of.answer(9); // It began before: nothing new about starting.
        }
        assert_eq!((of.level(3), of.opens_at(Foreground, false, 3)), (Level::Unavailable, Some(3)));
        let trial = |of: &mut Sessions, session, now| of.start(session, slot(Foreground, now, true), now);
        assert!(trial(&mut of, 3, 3).is_empty());
        assert_eq!(of.opens_at(Foreground, false, 3), None);
        of.end(3, SessionOutcome::NotStarted, 4);
        assert_eq!(of.opens_at(Foreground, false, 4), Some(60_003));
        assert_eq!(trial(&mut of, 4, 60_002).len(), 1, "too early");
        of.end(4, SessionOutcome::NotStarted, 60_002);
        assert_eq!(start(&mut of, 5, Foreground, 120_002).len(), 1, "no trial");
        of.answer(5);
        assert_eq!(of.level(120_002), Level::RateLimited, "they no longer fail in a row, and nothing is proven");
        of.answer(5);
        of.answer(5);
        assert_eq!(of.level(120_002), Level::Normal);
    }
}
