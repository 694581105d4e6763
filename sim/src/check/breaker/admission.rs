//! BREAKER-1: what may be sent past a breaker, and when it may and must move.
//!
//! A move needs its cause in the same instant: a failure that completes a row or a share, the verdict of a trial, a
//! timer. The result of an attempt that was sent before the breaker opened is no cause: late results change nothing.

use crate::check::circuits::{Circuits, Follow};
use crate::check::feed::Feed;
use crate::check::setting::{Setting, Start};
use crate::check::{Check, Violation};
use crate::history::{Entry, What, World};
use crate::model::breaker::{Breaker, Phase};
use squall::base::{EntryName, Rules};
use squall::event::{Event, OpenWhy};
use std::collections::BTreeMap;

/// Running calls are few; more than this are forgotten, the oldest first.
const CALLS_MAX: usize = 4_096;

/// How long after a start breakers may come back from the database.
const RESTORE_MS: u64 = 1_000;

#[derive(Default)]
pub struct Admissions {
    setting: Setting,
    feed: Option<Feed>,
    circuits: Option<Circuits>,
    /// Whether a running call is streamed.
    calls: BTreeMap<u64, bool>,
    now: u64,
    /// The trial in the slot of a half-open breaker, by place.
    trials: BTreeMap<usize, Trial>,
    /// Until when a half-open breaker may stay so, by place.
    half_open: BTreeMap<usize, u64>,
    /// Breakers that have to open in this instant, and the result that says so.
    due: Vec<(usize, u64)>,
    judged: u64,
}

struct Trial {
    attempt: u64,
    n: u64,
    deadline_ms: u64,
}

impl Check for Admissions {
    fn id(&self) -> &'static str {
        "BREAKER-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.overdue(entry.t_ms, out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        if let What::World(World::EngineKilled { .. }) = &entry.what {
            self.trials.clear();
            self.half_open.clear();
        }
        let What::Engine(event) = &entry.what else { return };
        let Some(feed) = &mut self.feed else { return };
        feed.observe(self.now, event);
        let wrong = if let Event::AttemptSent { .. } = event {
            self.sent(entry.n, event)
        } else if let Event::BreakerOpened { .. } = event {
            self.opened(event)
        } else if let Event::BreakerHalfOpen { .. } = event {
            self.half_opened(event)
        } else if let Event::BreakerClosed { .. } = event {
            self.closed(event)
        } else {
            self.followed(event);
            circuits_observe(&mut self.circuits, self.now, event);
            self.verdict(entry.n, event);
            return;
        };
        if let Some(wrong) = wrong {
            out.push(Violation::new(self.now, [entry.n], wrong));
        }
        circuits_observe(&mut self.circuits, self.now, event);
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

fn circuits_observe(circuits: &mut Option<Circuits>, now: u64, event: &Event) {
    if let Some(circuits) = circuits {
        circuits.observe(now, event);
    }
}

impl Admissions {
    fn start(&mut self, start: &Start) {
        let rules = self.setting.rules().expect("a start brings its rules");
        Feed::started(&mut self.feed, start, rules);
        Circuits::started(&mut self.circuits, Follow::All, start, self.now, rules);
        self.calls.clear();
        self.trials.clear();
        self.half_open.clear();
        self.due.clear();
    }

    fn known(&self, entry: &EntryName) -> Option<(usize, &Breaker, &Circuits)> {
        let circuits = self.circuits.as_ref()?;
        circuits.known(entry).map(|(at, breaker)| (at, breaker, circuits))
    }

    fn sent(&mut self, n: u64, event: &Event) -> Option<String> {
        let Event::AttemptSent { call, entry, attempt, probe, .. } = event else { return None };
        let (at, breaker, _) = self.known(entry)?;
        let phase = breaker.phase();
        match phase {
            Phase::Closed => None,
            Phase::Open { until_ms } => {
                self.judged += 1;
                let until = until_ms.map(|until| format!(" until {until} ms")).unwrap_or_default();
                if !probe {
                    return Some(format!("attempt {attempt} was sent to {entry}, whose breaker is open{until}"));
                }
                let last_resort = self.feed.as_ref().is_some_and(|feed| feed.supply.last_resort(at));
                (!last_resort).then(|| {
                    format!("{entry} was probed while its breaker is open{until} and each of its chains has an entry that serves")
                })
            }
            Phase::HalfOpen { .. } => {
                self.judged += 1;
                if let Some(other) = self.trials.get(&at) {
                    let other = other.attempt;
                    return Some(format!(
                        "attempt {attempt} was sent to the half-open {entry} while trial {other} is under way"
                    ));
                }
                let streamed = call.and_then(|call| self.calls.get(&call)).copied().unwrap_or(false);
                let deadline_ms = self.now + trial_deadline(self.setting.rules()?, streamed);
                self.trials.insert(at, Trial { attempt: *attempt, n, deadline_ms });
                None
            }
        }
    }

    /// Events that only keep the books.
    fn followed(&mut self, event: &Event) {
        if let Event::CallStarted { call, stream, .. } = event {
            self.calls.insert(*call, *stream);
            if self.calls.len() > CALLS_MAX {
                self.calls.pop_first();
            }
        } else if let Event::CallFinished { call, .. } = event {
            self.calls.remove(call);
        }
    }

    /// A result is in: the slot of its trial is free, and the breaker may have to open.
    fn verdict(&mut self, n: u64, event: &Event) {
        let (entry, attempt) = if let Event::AttemptFinished { entry, attempt, .. } = event {
            (entry, attempt)
        } else if let Event::AttemptFirstToken { entry, attempt, .. } = event {
            (entry, attempt)
        } else {
            return;
        };
        let Some((at, breaker, circuits)) = self.known(entry) else { return };
        let now = Some(self.now);
        let trial_failed = matches!(breaker.phase(), Phase::HalfOpen { .. }) && breaker.last.trial_failure_ms == now;
        let counts = breaker.last.failure_ms == now;
        let due = breaker.must_open(&circuits.rules) || trial_failed;
        self.judged += u64::from(due || counts);
        if due {
            self.due.push((at, n));
        }
        if self.trials.get(&at).is_some_and(|trial| trial.attempt == *attempt) {
            self.trials.remove(&at); // A trial past its deadline is told when time passes it.
        }
    }

    fn opened(&mut self, event: &Event) -> Option<String> {
        let Event::BreakerOpened { entry, trips, until_ms, why } = event else { return None };
        let now = self.now;
        let restored = now <= self.setting.started_ms() + RESTORE_MS;
        let (at, breaker, circuits) = self.known(entry)?;
        let rules = &circuits.rules;
        let base_ms = if circuits.topology.places[at].local { rules.open_local } else { rules.open }.ms();
        let (phase, last, before) = (breaker.phase(), breaker.last, breaker.trips());
        let row = breaker.row().1;
        let tripped = before.map(|before| before + 1);
        let longer_ms = longer(base_ms, *trips, rules.open_max.ms());
        let (wrong, trips_asked, until_asked) = match (*why, phase) {
            (OpenWhy::Consecutive, Phase::Closed) => {
                let wrong = if last.failure_ms != Some(now) {
                    Some("without a failure at this moment that counts".to_owned())
                } else if !breaker.may_open_by_row(rules) {
                    Some(format!("after {row} failures in a row, expected {}", rules.failures_max))
                } else {
                    None
                };
                (wrong, tripped, Some(now + longer_ms))
            }
            (OpenWhy::Rate, Phase::Closed) => {
                let wrong = !breaker.may_open_by_rate(now, rules);
                let (rate, least) = (rules.rate, rules.rate_min);
                let says = || format!("for its rate of failures, which is not {rate} of at least {least} attempts");
                (wrong.then(says), tripped, Some(now + longer_ms))
            }
            (OpenWhy::TrialFailed, Phase::HalfOpen { .. }) => {
                // A trial that is not judged at its deadline has failed, whatever comes of it afterwards.
                let timed_out = self.trials.get(&at).is_some_and(|trial| now >= trial.deadline_ms);
                let verdict = [last.trial_failure_ms, last.adopted_failure_ms].contains(&Some(now));
                let wrong = !timed_out && !verdict;
                (wrong.then(|| "without a failed trial at this moment".to_owned()), tripped, Some(now + longer_ms))
            }
            (OpenWhy::TrialThrottled, Phase::HalfOpen { .. }) => {
                let wrong = last.trial_wait_ms != Some(now) && last.adopted_wait_ms != Some(now);
                let says = || "without a trial that was told to wait at this moment".to_owned();
                (wrong.then(says), None, None) // BREAKER-2 looks at its trips and its time.
            }
            (OpenWhy::NoVerdict, Phase::HalfOpen { since_ms }) => {
                let wrong = now < since_ms + rules.half_open_max.ms();
                let says = || format!("for want of a verdict {} ms after it was half-open", now - since_ms);
                (wrong.then(says), before, Some(now + base_ms))
            }
            (OpenWhy::Restored, Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. }) => {
                let wrong = !restored;
                (wrong.then(|| "as restored, long after the engine was started".to_owned()), None, None)
            }
            (
                OpenWhy::Consecutive
                | OpenWhy::Rate
                | OpenWhy::TrialFailed
                | OpenWhy::TrialThrottled
                | OpenWhy::NoVerdict,
                Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. },
            ) => (Some(format!("({why:?}) while it was {}", phase_name(phase))), None, None),
        };
        self.judged += 1;
        self.trials.remove(&at);
        self.half_open.remove(&at);
        if let Some(wrong) = wrong {
            return Some(format!("the breaker of {entry} opened {wrong}"));
        }
        if let Some(asked) = trips_asked.filter(|asked| asked != trips) {
            return Some(format!("the breaker of {entry} opened ({why:?}) with {trips} trips, expected {asked}"));
        }
        until_asked
            .filter(|asked| asked != until_ms)
            .map(|asked| format!("the breaker of {entry} opened ({why:?}) until {until_ms} ms, expected {asked} ms"))
    }

    fn half_opened(&mut self, event: &Event) -> Option<String> {
        let Event::BreakerHalfOpen { entry, by_probe } = event else { return None };
        let now = self.now;
        let (at, breaker, circuits) = self.known(entry)?;
        let (phase, proven) = (breaker.phase(), breaker.last.probe_success_ms == Some(now));
        let half_open_max = circuits.rules.half_open_max.ms();
        // Of two deadlines the later one wins: a breaker may wait for the end of a park.
        let was_parked = self.feed.as_ref().is_some_and(|feed| feed.supply.park_ended_ms(at) == Some(now));
        self.judged += 1;
        self.half_open.insert(at, now + half_open_max);
        let says = |what: String| Some(format!("the breaker of {entry} became half-open {what}"));
        match (phase, by_probe) {
            (Phase::Closed | Phase::HalfOpen { .. }, _) => says(format!("while it was {}", phase_name(phase))),
            (Phase::Open { .. }, true) if !proven => {
                says("by a probe, without a probe's success at this moment".into())
            }
            (Phase::Open { until_ms: Some(until) }, false) if now < until => {
                says(format!("{} ms before its time, which is {until} ms", until - now))
            }
            (Phase::Open { until_ms: Some(until) }, false)
                if !was_parked && now > until + self.setting.late_max(until) =>
            {
                says(format!("{} ms after its time, which was {until} ms", now - until))
            }
            (Phase::Open { .. }, _) => None,
        }
    }

    fn closed(&mut self, event: &Event) -> Option<String> {
        let Event::BreakerClosed { entry } = event else { return None };
        let now = Some(self.now);
        let (at, breaker, _) = self.known(entry)?;
        let (phase, last) = (breaker.phase(), breaker.last);
        self.judged += 1;
        self.trials.remove(&at);
        self.half_open.remove(&at);
        let Phase::HalfOpen { .. } = phase else {
            return Some(format!("the breaker of {entry} closed while it was {}", phase_name(phase)));
        };
        (last.trial_success_ms != now && last.probe_success_ms != now)
            .then(|| format!("the breaker of {entry} closed without a trial's success at this moment"))
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        let Some(circuits) = &self.circuits else { return };
        for (at, n) in self.due.drain(..) {
            let breaker = circuits.breaker(at);
            let name = &circuits.topology.places[at].name;
            let what = match breaker.phase() {
                Phase::Closed if breaker.must_open(&circuits.rules) => {
                    let (row, max) = (breaker.row().0, circuits.rules.failures_max);
                    format!(
                        "the breaker of {name} stays closed after {row} failures in a row (it opens at {max}) or by its rate"
                    )
                }
                Phase::HalfOpen { .. } if breaker.last.trial_failure_ms == Some(self.now) => {
                    format!("the breaker of {name} stays half-open after a failed trial")
                }
                Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. } => continue,
            };
            out.push(Violation::new(self.now, [n], what));
        }
    }

    /// Time has come to `now`: trials past their deadline, breakers half-open for too long.
    fn overdue(&mut self, now: u64, out: &mut Vec<Violation>) {
        let Some(circuits) = self.circuits.as_ref().filter(|_| self.setting.up) else { return };
        let name = |at: usize| &circuits.topology.places[at].name;
        let setting = &self.setting;
        self.trials.retain(|at, trial| {
            let late = now > trial.deadline_ms + setting.late_max(trial.deadline_ms);
            if late {
                let (attempt, deadline) = (trial.attempt, trial.deadline_ms);
                let what = format!("trial {attempt} at {} is not judged at its deadline, {deadline} ms", name(*at));
                out.push(Violation::new(now, [trial.n], what));
            }
            !late
        });
        self.half_open.retain(|at, end| {
            let late = now > *end + setting.late_max(*end);
            if late {
                let what = format!("the breaker of {} is half-open after {end} ms, its longest time", name(*at));
                out.push(Violation::new(now, [], what));
            }
            !late
        });
    }
}

fn trial_deadline(rules: &Rules, streamed: bool) -> u64 {
    let streamed_ms = rules.breaker.trial_deadline.ms();
    if streamed { streamed_ms } else { streamed_ms.max(rules.call.first_byte.ms()) }
}

/// The open time at this many trips in a row: doubled each time, up to its cap.
fn longer(base_ms: u64, trips: u32, max_ms: u64) -> u64 {
    base_ms.saturating_mul(1 << trips.saturating_sub(1).min(40)).min(max_ms)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed => "closed",
        Phase::Open { .. } => "open",
        Phase::HalfOpen { .. } => "half-open",
    }
}

#[cfg(test)]
mod tests;
