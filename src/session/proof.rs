//! What has to be proven before sessions count as working again: after a limit, and after starts that failed.
//!
//! *Answered* is a session that ended without a limit, or ran for a while without one. Only one that started after the
//! trouble was over (or, for starts that fail, after it was noticed) proves anything.

use crate::base::MonoTime;
use crate::base::rules::SessionRules;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Proving {
    since: MonoTime,
    answered: u32,
}

impl Proving {
    /// `true`: that was the last one needed.
    fn answered(&mut self, started: MonoTime, rules: &SessionRules) -> bool {
        self.answered += u32::from(started >= self.since);
        self.answered >= rules.confirmations
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The last limit is over, that sessions work is not proven.
    after_limit: Option<Proving>,
    /// Starts failed too often in a row.
    unavailable: Option<Proving>,
    failed_starts: u32,
    /// When the newest start that failed began.
    failed_at: Option<MonoTime>,
    last_trial: Option<MonoTime>,
    /// When the next trial may be made; passed by the timer.
    next_trial: Option<MonoTime>,
}

impl Proof {
    pub fn limit_stated(&mut self) {
        self.after_limit = None;
    }

    pub fn limit_over(&mut self, now: MonoTime) {
        self.after_limit = Some(Proving { since: now, answered: 0 });
    }

    pub fn is_after_limit(&self) -> bool {
        self.after_limit.is_some()
    }

    /// Unavailable, and nothing has been answered yet.
    pub fn is_failing(&self) -> bool {
        self.unavailable.is_some_and(|proving| proving.answered == 0)
    }

    pub fn is_unavailable(&self) -> bool {
        self.unavailable.is_some()
    }

    /// A session that started at `started` runs or ran: starting works.
    pub fn start_worked(&mut self, started: MonoTime) {
        if self.failed_at.is_none_or(|at| started >= at) {
            self.failed_starts = 0;
        }
    }

    pub fn start_failed(&mut self, started: MonoTime, now: MonoTime, rules: &SessionRules) {
        self.failed_starts = self.failed_starts.saturating_add(1);
        self.failed_at = self.failed_at.max(Some(started));
        match &mut self.unavailable {
            // The answers have to come in a row.
            Some(proving) => proving.answered = 0,
            None if self.failed_starts >= rules.failed_starts_max => {
                self.unavailable = Some(Proving { since: now, answered: 0 });
            }
            None => {}
        }
    }

    /// `true`: with this one a limit is proven to be gone.
    pub fn answered(&mut self, started: MonoTime, rules: &SessionRules) -> bool {
        self.start_worked(started);
        if self.unavailable.as_mut().is_some_and(|proving| proving.answered(started, rules)) {
            self.unavailable = None;
        }
        let limit_gone = self.after_limit.as_mut().is_some_and(|proving| proving.answered(started, rules));
        if limit_gone {
            self.after_limit = None;
        }
        limit_gone
    }

    pub fn trial_started(&mut self, now: MonoTime, rules: &SessionRules) {
        self.last_trial = Some(now);
        self.next_trial = Some(now + rules.trial_every);
    }

    /// When the next trial may be made, if not now.
    pub fn next_trial(&self, now: MonoTime, rules: &SessionRules) -> Option<MonoTime> {
        self.last_trial.map(|at| at + rules.trial_every).filter(|at| *at > now)
    }

    pub fn due(&self) -> Option<MonoTime> {
        self.next_trial
    }

    pub fn timer(&mut self, now: MonoTime) {
        self.next_trial = self.next_trial.filter(|at| *at > now);
    }

    /// After a restart: nothing happened later than now, and no wait is longer than it may be.
    pub fn restore(&mut self, now: MonoTime, rules: &SessionRules) {
        for proving in self.after_limit.iter_mut().chain(&mut self.unavailable) {
            proving.since = proving.since.min(now);
        }
        self.failed_at = self.failed_at.map(|at| at.min(now));
        self.last_trial = self.last_trial.map(|at| at.min(now));
        self.next_trial = self.next_trial.map(|at| at.min(now + rules.trial_every));
    }
}
