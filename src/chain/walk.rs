//! A call's walk through its chain.
//!
//! The engine asks [`Walk::next`], does what it says, reports with [`Walk::settled`], and asks again. Who admits is read
//! afresh before each step; what this call has already been told by an entry stays with the call.
//! Absent on purpose: breakers and parks (`breaker`), the retry budget (`budget`), sending.
//! Invariant: LIMIT-2. **Source:** engine.md 3 (outcomes, chain).

use super::backoff;
use crate::base::rules::{CallRules, RetryRules};
use crate::base::{CallClass, CallOutcome, EntryName, MonoTime, Outcome, Span};
use serde::{Deserialize, Serialize};

/// What the walk needs to know of an entry's gate, read afresh before each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryView {
    pub admits: bool,
    /// The refusal's earliest time; `None`: not by itself. Not looked at when it admits.
    pub earliest: Option<MonoTime>,
    /// It refuses only because a probe holds its slot (`RefusalWhy::BusyProbe`).
    pub probe_in_slot: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask entry `index`. `retry`: this call was sent to this provider before, so the retry budget has to agree; if the
    /// budget or the gate says no, settle with [`Outcome::Refused`].
    Try { index: usize, retry: bool },
    /// Sleep until `until`, then ask again. Nothing is under way.
    Wait { index: usize, until: MonoTime },
    /// Foreground only: wait until the probe at entry `index` ended, at most until `until`, then ask again.
    AwaitProbe { index: usize, until: MonoTime },
    /// Nothing is left to ask; `earliest`: when the chain can work again.
    Exhausted { earliest: Option<MonoTime> },
    /// The call is over: [`Walk::outcome`].
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Visit {
    entry: EntryName,
    /// Attempts sent.
    sent: u32,
    /// Its one retry after `overloaded` was granted.
    overloaded_once: bool,
    /// When the next attempt here may go out. Only while a retry is planned.
    retry_at: Option<MonoTime>,
    /// Not asked again in this call.
    given_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Answered,
    Truncated,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Walk {
    class: CallClass,
    visits: Vec<Visit>,
    attempts_entry_max: u32,
    attempts_max: u32,
    deadline: MonoTime,
    retry: RetryRules,
    /// The attempt under way.
    asked: Option<usize>,
    /// Attempts sent, that one included.
    sent: u32,
    answer_started: bool,
    end: Option<End>,
}

impl Walk {
    pub fn new(
        class: CallClass,
        entries: Vec<EntryName>,
        started: MonoTime,
        call: &CallRules,
        retry: &RetryRules,
    ) -> Walk {
        let visit = |entry| Visit { entry, sent: 0, overloaded_once: false, retry_at: None, given_up: false };
        Walk {
            class,
            visits: entries.into_iter().map(visit).collect(),
            attempts_entry_max: match class {
                CallClass::Foreground => call.attempts_foreground,
                CallClass::Background => call.attempts_background,
            },
            attempts_max: call.attempts_max,
            deadline: started + call.deadline,
            retry: retry.clone(),
            asked: None,
            sent: 0,
            answer_started: false,
            end: None,
        }
    }

    /// What to do at `now`, given how the gates of the entries stand. `views` is in the order of the entries.
    pub fn next(&mut self, now: MonoTime, views: &[EntryView]) -> Step {
        assert!(views.len() == self.visits.len(), "LIMIT-2: {} views of {} entries", views.len(), self.visits.len());
        assert!(self.asked.is_none(), "LIMIT-2: a call has one attempt under way at a time");
        if self.end.is_some() {
            return Step::Ended;
        }
        if now >= self.deadline || self.sent >= self.attempts_max {
            return self.exhausted(now, views);
        }
        if let Some(index) = self.visits.iter().position(|visit| visit.retry_at.is_some()) {
            if let Some(until) = self.visits[index].retry_at.filter(|_| self.may_retry(index, views)) {
                if now < until {
                    return Step::Wait { index, until };
                }
                return self.ask(index);
            }
            // Something else than the wait is in its way: the chain goes on.
            self.give_up(index);
        }
        let free = |index: &usize| !self.visits[*index].given_up;
        if let Some(index) = (0..views.len()).filter(free).find(|index| views[*index].admits) {
            return self.ask(index);
        }
        if self.class == CallClass::Foreground
            && let Some(index) = (0..views.len()).filter(free).find(|index| views[*index].probe_in_slot)
        {
            return Step::AwaitProbe { index, until: self.deadline };
        }
        self.exhausted(now, views)
    }

    /// The attempt at `index` ended, or was refused before it was sent. `jitter_unit`: a random number in 0..1.
    pub fn settled(&mut self, index: usize, outcome: Outcome, hint: Option<Span>, now: MonoTime, jitter_unit: f64) {
        assert!(self.asked == Some(index), "LIMIT-2: entry {index} is settled while {:?} was asked", self.asked);
        self.asked = None;
        if outcome == Outcome::Refused {
            self.sent -= 1;
            self.visits[index].sent -= 1;
        }
        if self.answer_started {
            self.end = Some(if outcome == Outcome::Success { End::Answered } else { End::Truncated });
            return;
        }
        match outcome {
            Outcome::Success => self.end = Some(End::Answered),
            Outcome::CallersFault | Outcome::Cancelled => self.end = Some(End::Failed),
            Outcome::ProviderFault => self.plan_retry(index, hint, now, jitter_unit),
            Outcome::Overloaded => {
                if self.visits[index].overloaded_once {
                    self.give_up(index);
                } else {
                    self.visits[index].overloaded_once = true;
                    self.plan_retry(index, hint, now, jitter_unit);
                }
            }
            Outcome::Throttled | Outcome::Quota | Outcome::BadKey | Outcome::Unfit | Outcome::Refused => {
                self.give_up(index);
            }
        }
    }

    /// The first token of a stream was passed on: nothing else is tried any more, and the deadline is met.
    pub fn answer_started(&mut self) {
        assert!(self.asked.is_some(), "LIMIT-2: a first token without an attempt");
        self.answer_started = true;
    }

    /// When the wait for an answer to start ends.
    pub fn deadline(&self) -> MonoTime {
        self.deadline
    }

    /// Attempts sent.
    pub fn attempts(&self) -> u32 {
        self.sent
    }

    /// What the call came to, once [`Walk::next`] said `Ended` or `Exhausted`: refused if nothing could be asked.
    pub fn outcome(&self) -> CallOutcome {
        match self.end {
            Some(End::Answered) => CallOutcome::Ok,
            Some(End::Truncated) => CallOutcome::Truncated,
            Some(End::Failed) => CallOutcome::Failed,
            None if self.sent == 0 => CallOutcome::Refused,
            None => CallOutcome::Failed,
        }
    }

    /// Whether the retry planned at `index` may still be made: it admits, and each further admitting entry keeps one.
    fn may_retry(&self, index: usize, views: &[EntryView]) -> bool {
        let further = (0..views.len()).filter(|other| {
            *other != index && views[*other].admits && !self.visits[*other].given_up && self.visits[*other].sent == 0
        });
        let left = (self.attempts_max - self.sent) as usize;
        views[index].admits && left > further.count()
    }

    fn give_up(&mut self, index: usize) {
        self.visits[index].retry_at = None;
        self.visits[index].given_up = true;
    }

    fn ask(&mut self, index: usize) -> Step {
        let provider = self.visits[index].entry.provider();
        let retry = self.visits.iter().any(|visit| visit.sent > 0 && visit.entry.provider() == provider);
        self.asked = Some(index);
        self.sent += 1;
        self.visits[index].sent += 1;
        self.visits[index].retry_at = None;
        Step::Try { index, retry }
    }

    /// Plans a retry here if attempts are left and its wait fits the deadline; gives the entry up otherwise.
    fn plan_retry(&mut self, index: usize, hint: Option<Span>, now: MonoTime, jitter_unit: f64) {
        let visit = &mut self.visits[index];
        let at = now + backoff::wait(visit.sent - 1, hint, jitter_unit, &self.retry);
        if visit.sent < self.attempts_entry_max && at < self.deadline {
            visit.retry_at = Some(at);
        } else {
            visit.given_up = true;
        }
    }

    fn exhausted(&self, now: MonoTime, views: &[EntryView]) -> Step {
        let earliest = views.iter().filter_map(|view| if view.admits { Some(now) } else { view.earliest }).min();
        Step::Exhausted { earliest }
    }
}

#[cfg(test)]
mod tests;
