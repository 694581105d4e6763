//! The sessions that hold a slot, and everything that decides about the next one.

use super::hour::Hour;
use super::limits::Limits;
use super::proof::Proof;
use super::waiting::Rank;
use crate::base::rules::SessionRules;
use crate::base::{MonoTime, SessionClass, SessionOutcome, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A timer that comes later than this was not late by itself.
const LATE: Span = Span::from_secs(5);

/// What somebody asked for; it stays the same through all runs of a session but for `progress`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub class: SessionClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How far an earlier run came, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

/// The deferred item as which a session waited, leased as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub item: u64,
    /// Of the item's lease.
    pub claim: u64,
    /// When it was deferred: its place in the queue.
    pub deferred_at: MonoTime,
}

impl Held {
    pub fn rank(&self, class: SessionClass) -> Rank {
        (class.priority(), self.deferred_at, self.item)
    }
}

/// A session that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Active {
    pub ask: Ask,
    pub held: Option<Held>,
    /// Names this run of it.
    pub token: u64,
    pub started: MonoTime,
    pub lease_until: MonoTime,
    pub trial: bool,
    pub answered: bool,
    /// It met a limit.
    pub limited: bool,
}

/// As what a session gets its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub session: u64,
    pub ask: Ask,
    pub held: Option<Held>,
    pub trial: bool,
}

/// What a session read about a limit. `jitter_unit` is a random number in 0..1, for our own back-off.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    pub window: &'a str,
    pub resets_in: Option<Span>,
    pub jitter_unit: f64,
}

/// There is no such run: its slot was reclaimed, or it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// What a session was when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub active: Active,
    /// Its end is an answer.
    pub answered: bool,
}

/// What time did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    Answered {
        session: u64,
    },
    /// Its lease ended.
    Lost {
        session: u64,
        active: Box<Active>,
    },
}

/// What is measured of all this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    pub failing: bool,
    pub unavailable: bool,
    pub limited: bool,
    pub hour_used_up: bool,
    pub throttled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    pub(super) hour: Hour,
    pub(super) limits: Limits,
    pub(super) proof: Proof,
    active: BTreeMap<u64, Active>,
    /// The newest session's number.
    newest: u64,
    /// The newest run's.
    newest_token: u64,
    completed: u64,
    limits_seen: u64,
}

impl Sessions {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Whether the number was ever given.
    pub fn was_asked(&self, session: u64) -> bool {
        (1..=self.newest).contains(&session)
    }

    pub fn active(&self) -> impl Iterator<Item = (u64, &Active)> {
        self.active.iter().map(|(session, active)| (*session, active))
    }

    pub fn get(&self, session: u64) -> Option<&Active> {
        self.active.get(&session)
    }

    pub fn by_key(&self, key: &str) -> Option<u64> {
        self.active().find(|(_, active)| active.ask.key.as_deref() == Some(key)).map(|(session, _)| session)
    }

    /// Gives a slot, and the token of this run.
    pub fn start(&mut self, place: Place, now: MonoTime, rules: &SessionRules) -> u64 {
        assert!(self.active.len() < rules.active_max as usize, "SESSION-1: a start without a free slot");
        self.newest_token += 1;
        let Place { session, ask, held, trial } = place;
        if trial {
            self.proof.trial_started(now, rules);
        }
        let active = Active {
            ask,
            held,
            token: self.newest_token,
            started: now,
            lease_until: now + rules.lease,
            trial,
            answered: false,
            limited: false,
        };
        let twin = self.active.insert(session, active);
        assert!(twin.is_none(), "SESSION-1: session {session} runs already");
        self.hour.started(now, rules);
        self.newest_token
    }

    /// Its owner was heard of: the lease starts afresh.
    pub fn alive(&mut self, session: u64, token: u64, now: MonoTime, rules: &SessionRules) -> Result<(), Gone> {
        self.own(session, token)?.lease_until = now + rules.lease;
        Ok(())
    }

    /// It met a limit. When the limit of this window is over.
    pub fn limit(
        &mut self,
        session: u64,
        token: u64,
        statement: Statement,
        now: MonoTime,
        rules: &SessionRules,
    ) -> Result<MonoTime, Gone> {
        let active = self.own(session, token)?;
        let first = !std::mem::replace(&mut active.limited, true);
        let started = active.started;
        self.limits_seen += u64::from(first);
        self.proof.start_worked(started);
        self.proof.limit_stated();
        Ok(self.limits.stated(statement, started, now, rules))
    }

    /// It ended, as its owner says. A limit that was not stated before must be stated first.
    pub fn end(
        &mut self,
        session: u64,
        token: u64,
        outcome: SessionOutcome,
        now: MonoTime,
        rules: &SessionRules,
    ) -> Result<Ended, Gone> {
        self.own(session, token)?;
        let active = self.active.remove(&session).expect("it was just found");
        let answered = match outcome {
            SessionOutcome::Done | SessionOutcome::Failed => {
                self.completed += 1;
                !active.answered && !active.limited
            }
            SessionOutcome::NotStarted => {
                self.proof.start_failed(active.started, now, rules);
                false
            }
            SessionOutcome::Limited | SessionOutcome::Lost => false,
        };
        if answered {
            self.answered(active.started, rules);
        }
        Ok(Ended { active, answered })
    }

    fn own(&mut self, session: u64, token: u64) -> Result<&mut Active, Gone> {
        self.active.get_mut(&session).filter(|active| active.token == token).ok_or(Gone)
    }

    fn answered(&mut self, started: MonoTime, rules: &SessionRules) {
        if self.proof.answered(started, rules) {
            self.limits.confirmed();
        }
    }

    /// A trial runs whose result is not known yet.
    pub fn trial_under_way(&self) -> bool {
        self.active.values().any(|active| active.trial && !active.answered && !active.limited)
    }

    pub fn due(&self, rules: &SessionRules) -> Option<MonoTime> {
        let leases = self.active.values().map(|active| active.lease_until);
        let answers = self.active.values().filter_map(|active| active.answered_at(rules));
        let others = [self.limits.due(), self.hour.due(rules), self.proof.due()];
        leases.chain(answers).chain(others.into_iter().flatten()).min()
    }

    /// Does what is due. A lease that ends at the moment at which its session would be answered ended first. When it comes
    /// late the machine slept or could not store anything: leases start afresh, for nobody could be heard meanwhile.
    pub fn timer(&mut self, now: MonoTime, rules: &SessionRules) -> Vec<Happened> {
        let mut happened = Vec::new();
        if self.due(rules).is_some_and(|due| now - due > LATE) {
            self.unheard(now, rules);
        }
        let over = |(session, active): (&u64, &Active)| (now >= active.lease_until).then_some(*session);
        let lost: Vec<u64> = self.active.iter().filter_map(over).collect();
        for session in lost {
            let active = Box::new(self.active.remove(&session).expect("the number was just read from there"));
            happened.push(Happened::Lost { session, active });
        }
        // Before the answers: what started inside the limit proves nothing about the time after it.
        if self.limits.timer(now) {
            self.proof.limit_over(now);
        }
        let mut answered = Vec::new();
        for (session, active) in &mut self.active {
            if active.answered_at(rules).is_some_and(|at| now >= at) {
                active.answered = true;
                answered.push(active.started);
                happened.push(Happened::Answered { session: *session });
            }
        }
        for started in answered {
            self.answered(started, rules);
        }
        self.hour.look(now, rules);
        self.proof.timer(now);
        happened
    }

    pub fn condition(&self, now: MonoTime, rules: &SessionRules) -> Condition {
        Condition {
            failing: self.proof.is_failing(),
            unavailable: self.proof.is_unavailable(),
            limited: self.limits.in_force() || self.proof.is_after_limit(),
            hour_used_up: self.hour.is_used_up(now, rules),
            throttled: self.hour.is_throttled(),
        }
    }

    /// When the last limit in force is over.
    pub fn limited_until(&self) -> Option<MonoTime> {
        self.limits.last().map(|(_, until)| until)
    }

    /// No limit is in force and starts work again as far as is known, but it is not proven.
    pub fn is_confirming(&self) -> bool {
        self.proof.is_after_limit() || (self.proof.is_unavailable() && !self.proof.is_failing())
    }

    pub fn starts_in_hour(&self, now: MonoTime) -> usize {
        self.hour.count(now)
    }

    /// Sessions that ended by themselves, whatever their exit code.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Sessions that met a limit.
    pub fn limits_seen(&self) -> u64 {
        self.limits_seen
    }

    /// Nobody could say a word for a while: a slot is rather kept too long than given twice.
    fn unheard(&mut self, now: MonoTime, rules: &SessionRules) {
        for active in self.active.values_mut() {
            active.lease_until = now + rules.lease;
        }
    }

    /// After a restart: stored deadlines later than now + their maximum are clamped. Leases start afresh.
    pub fn restore(&mut self, now: MonoTime, rules: &SessionRules) {
        self.hour.restore(now, rules);
        self.limits.restore(now, rules);
        self.proof.restore(now, rules);
        for active in self.active.values_mut() {
            active.started = active.started.min(now);
        }
        self.unheard(now, rules);
    }
}

impl Active {
    /// When it has run for long enough without a limit; `None`: it is answered, or will not be.
    fn answered_at(&self, rules: &SessionRules) -> Option<MonoTime> {
        (!self.answered && !self.limited).then(|| self.started + rules.answered_after)
    }
}
