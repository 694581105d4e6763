//! The health of the dense path as recalls measure it.
//!
//! Where two things happened in the same millisecond their order is open: [`Health::step`] then gives both outcomes.
//! **Units:** milliseconds. **Source:** engine.md 10.

/// What is known about the dense path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Unknown,
    Healthy,
    Hint,
    Fault,
}

/// How a recall's query embedding went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dense {
    Ok,
    Cached,
    /// It left the process and failed, or was refused by a short park.
    Failed,
    RefusedLocally,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    pub state: State,
    /// Failed recalls in a row, while it is no fault.
    failed: u32,
    /// When the first of them was known.
    first_failed_ms: u64,
    fault_ms: u64,
}

impl Health {
    pub fn new(state: State, failed: u32, now: u64) -> Health {
        Health { state, failed, first_failed_ms: now, fault_ms: now }
    }

    /// What may be known after a recall that began at `started` and is over at `now`.
    pub fn step(self, dense: Dense, started: u64, now: u64, failures_to_fault: u32) -> (Health, Option<Health>) {
        match dense {
            Dense::Cached => (self, None),
            Dense::Off => (Health { state: State::Hint, ..self }, None),
            Dense::RefusedLocally => (self.fault(now), None),
            Dense::Ok => self.succeeded(started),
            Dense::Failed => self.failed(started, now, failures_to_fault),
        }
    }

    fn fault(self, now: u64) -> Health {
        let fault_ms = if self.state == State::Fault { self.fault_ms } else { now };
        Health { state: State::Fault, fault_ms, failed: 0, ..self }
    }

    fn succeeded(self, started: u64) -> (Health, Option<Health>) {
        let well = Health { state: State::Healthy, failed: 0, ..self };
        if self.state == State::Fault {
            // A late success, of a call that began before the fault was known, does not clear it.
            return match started.cmp(&self.fault_ms) {
                std::cmp::Ordering::Less => (self, None),
                std::cmp::Ordering::Equal => (self, Some(well)),
                std::cmp::Ordering::Greater => (well, None),
            };
        }
        // Whether a success that began before the first failure breaks the row is not said.
        let overlapped = self.failed > 0 && started <= self.first_failed_ms;
        (well, overlapped.then_some(Health { state: State::Healthy, ..self }))
    }

    fn failed(self, started: u64, now: u64, failures_to_fault: u32) -> (Health, Option<Health>) {
        if self.state == State::Fault {
            return (self, None);
        }
        let first_failed_ms = if self.failed == 0 { now } else { self.first_failed_ms };
        let failed = self.failed + 1;
        let more = Health { failed, first_failed_ms, ..self };
        let more = if failed >= failures_to_fault { more.fault(now) } else { more };
        if self.failed == 0 {
            return (more, None);
        }
        // Recalls that began before the first failure was known count once, together.
        match started.cmp(&self.first_failed_ms) {
            std::cmp::Ordering::Less => (self, None),
            std::cmp::Ordering::Equal => (self, Some(more)),
            std::cmp::Ordering::Greater => (more, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[(Dense, u64, u64)]) -> State {
        let mut health = Health::new(State::Unknown, 0, 0);
        for (dense, started, now) in steps {
            health = health.step(*dense, *started, *now, 2).0;
        }
        health.state
    }

    #[test]
    fn two_failed_recalls_in_a_row_are_a_fault_and_one_is_none() {
        assert_eq!(after(&[(Dense::Failed, 10, 20)]), State::Unknown);
        assert_eq!(after(&[(Dense::Failed, 10, 20), (Dense::Failed, 30, 40)]), State::Fault);
        assert_eq!(after(&[(Dense::Failed, 10, 20), (Dense::Ok, 30, 40), (Dense::Failed, 50, 60)]), State::Healthy);
        assert_eq!(after(&[(Dense::Failed, 10, 20), (Dense::Cached, 30, 40), (Dense::Failed, 50, 60)]), State::Fault);
    }

    #[test]
    fn recalls_that_began_before_the_first_failure_was_known_count_once() {
        assert_eq!(after(&[(Dense::Failed, 10, 20), (Dense::Failed, 15, 25)]), State::Unknown);
    }

    #[test]
    fn only_a_success_that_began_after_the_fault_clears_it() {
        let fault = [(Dense::RefusedLocally, 10, 20)];
        assert_eq!(after(&fault), State::Fault);
        assert_eq!(after(&[fault[0], (Dense::Ok, 15, 25)]), State::Fault);
        assert_eq!(after(&[fault[0], (Dense::Ok, 21, 25)]), State::Healthy);
    }
}
