//! LIMIT-2: what is on the wire is what the trace says, and no more of it than the rules allow.

use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use crate::model::retry::Budget;
use squall::base::{CallClass, EntryName, Outcome};
use squall::event::Event;
use std::collections::BTreeMap;

/// Attempts that are remembered, the newest: a request may arrive long after its attempt was given up.
const ATTEMPTS_MAX: usize = 2_048;
const CALLS_MAX: usize = 4_096;

#[derive(Default)]
pub struct Attempts {
    setting: Setting,
    /// Of this incarnation, and of the one before, whose packets may still be on their way.
    sent: Sent,
    before: Sent,
    calls: BTreeMap<u64, Call>,
    budgets: BTreeMap<String, Budget>,
    judged: u64,
}

#[derive(Default)]
struct Sent {
    attempts: BTreeMap<u64, Attempt>,
    /// Lower numbers are forgotten.
    known_from: u64,
}

struct Attempt {
    entry: EntryName,
    n: u64,
    requests: u32,
}

struct Call {
    class: CallClass,
    entries_max: u32,
    attempts: u32,
    by_entry: Vec<(EntryName, u32)>,
}

impl Check for Attempts {
    fn id(&self) -> &'static str {
        "LIMIT-2"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if self.setting.observe(entry).is_some() {
            self.before = std::mem::take(&mut self.sent);
            self.calls.clear();
            self.budgets.values_mut().for_each(Budget::restarted);
            return;
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry, event, out),
            What::Outside(Outside::ProviderRequest { entry: to, request, .. }) => {
                self.request(entry, to, *request, out);
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Attempts {
    fn engine(&mut self, entry: &Entry, event: &Event, out: &mut Vec<Violation>) {
        let now = entry.t_ms;
        if let Event::CallStarted { call, chain, class, .. } = event {
            let entries =
                self.setting.rules().and_then(|rules| rules.chain(chain)).map_or(0, |chain| chain.entries.len());
            let new = Call { class: *class, entries_max: entries as u32, attempts: 0, by_entry: Vec::new() };
            self.calls.insert(*call, new);
            if self.calls.len() > CALLS_MAX {
                self.calls.pop_first();
            }
        } else if let Event::AttemptSent { call, entry: to, attempt, retry, .. } = event {
            self.sent(now, entry.n, *call, to, *attempt, *retry, out);
        } else if let Event::AttemptFinished { entry: at, attempt, outcome: Outcome::Success, .. } = event {
            if let Some(sent) = self.sent.attempts.get(attempt).filter(|_| self.setting.simulated) {
                self.judged += 1;
                if sent.requests == 0 {
                    let what = format!("attempt {attempt} at {at} succeeded, but no request of it was received");
                    out.push(Violation::new(now, [sent.n, entry.n], what));
                }
            }
        } else if let Event::CallFinished { call, attempts, .. } = event {
            let Some(known) = self.calls.remove(call) else { return };
            self.judged += 1;
            if known.attempts != *attempts {
                let what = format!("call {call} says it made {attempts} attempts, it sent {}", known.attempts);
                out.push(Violation::new(now, [entry.n], what));
            }
        } else if let Event::DeferredReleased { id, attempts, .. } = event {
            let Some(rules) = self.setting.rules() else { return };
            self.judged += 1;
            let max = rules.queue.attempts_max;
            if *attempts >= max {
                let what =
                    format!("item {id} goes back after {attempts} failed attempts, at {max} it is a dead letter");
                out.push(Violation::new(now, [entry.n], what));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn sent(
        &mut self,
        now: u64,
        n: u64,
        call: Option<u64>,
        to: &EntryName,
        number: u64,
        retry: bool,
        out: &mut Vec<Violation>,
    ) {
        let Some(rules) = self.setting.rules() else { return };
        self.judged += 1;
        let new = Attempt { entry: to.clone(), n, requests: 0 };
        if let Some(old) = self.sent.attempts.insert(number, new) {
            out.push(Violation::new(now, [old.n, n], format!("attempt number {number} was used twice")));
        }
        if self.sent.attempts.len() > ATTEMPTS_MAX
            && let Some((oldest, _)) = self.sent.attempts.pop_first()
        {
            self.sent.known_from = oldest + 1;
        }
        if let Some(call_id) = call {
            let budget = match self.budgets.get_mut(to.provider()) {
                Some(budget) => budget,
                None => self.budgets.entry(to.provider().to_owned()).or_default(),
            };
            if !retry {
                budget.call(now);
            } else if let Err((retries, calls)) = budget.retry(now, &rules.retry) {
                let provider = to.provider();
                let (share, least) = (rules.retry.budget, rules.retry.budget_min_per_minute);
                let what = format!(
                    "{provider} got {retries} retries within a minute with {calls} calls, allowed are {share} of the \
                     calls or {least}"
                );
                out.push(Violation::new(now, [n], what));
            }
            let Some(call) = self.calls.get_mut(&call_id) else { return };
            call.attempts += 1;
            let here = match call.by_entry.iter_mut().find(|(entry, _)| entry == to) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    call.by_entry.push((to.clone(), 1));
                    1
                }
            };
            let max = match call.class {
                CallClass::Foreground => rules.call.attempts_foreground,
                CallClass::Background => rules.call.attempts_background,
            };
            let all_max = rules.call.attempts_max.max(call.entries_max);
            if here > max {
                let what = format!("call {call_id} made attempt {here} at {to}, allowed are {max} per entry");
                out.push(Violation::new(now, [n], what));
            }
            if call.attempts > all_max {
                let what = format!("call {call_id} made attempt {}, allowed are {all_max} in all", call.attempts);
                out.push(Violation::new(now, [n], what));
            }
        }
    }

    fn request(&mut self, entry: &Entry, to: &EntryName, request: Option<u64>, out: &mut Vec<Violation>) {
        if self.setting.rules().is_none() {
            return;
        }
        self.judged += 1;
        let mut say = |events: Vec<u64>, what: String| out.push(Violation::new(entry.t_ms, events, what));
        let Some(number) = request else {
            say(vec![entry.n], format!("{to} received a request that names no attempt"));
            return;
        };
        let fresh = |sent: &Sent| sent.attempts.get(&number).is_some_and(|attempt| attempt.requests == 0);
        // Numbers may begin anew with an incarnation: a packet of the one before may be the one that arrived.
        let old_one = !fresh(&self.sent) && fresh(&self.before);
        let sent = if old_one { &mut self.before } else { &mut self.sent };
        if let Some(attempt) = sent.attempts.get_mut(&number) {
            attempt.requests += 1;
            if attempt.requests > 1 {
                say(vec![attempt.n, entry.n], format!("{to} received attempt {number} a second time"));
            } else if !agrees(&attempt.entry, to) {
                let meant = &attempt.entry;
                say(vec![attempt.n, entry.n], format!("{to} received attempt {number}, which was sent to {meant}"));
            }
        } else if number >= self.sent.known_from && !self.before.attempts.contains_key(&number) {
            say(vec![entry.n], format!("{to} received a request with number {number}, which no attempt has"));
        }
    }
}

/// The same provider, and the same model where both name one.
fn agrees(sent: &EntryName, seen: &EntryName) -> bool {
    let models = sent.model().zip(seen.model());
    sent.provider() == seen.provider() && models.is_none_or(|(sent, seen)| sent == seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use crate::history::World;

    fn check() -> Attempts {
        Attempts::default()
    }

    fn request(entry: &str, request: Option<u64>) -> Outside {
        Outside::ProviderRequest { entry: name(entry), probe: false, early: false, request, stream: false }
    }

    fn retried(entry: &str, attempt: u64, call: u64) -> Event {
        Event::AttemptSent { call: Some(call), entry: name(entry), attempt, probe: false, trial: false, retry: true }
    }

    #[test]
    fn a_request_for_each_attempt_is_accepted_and_a_refused_connection_has_none() {
        Story::new()
            .at(0, called(1))
            .at(1, sent("alpha", 1, 1))
            .at(2, ended("alpha", 1, 1, Outcome::ProviderFault))
            .at(3, sent("beta", 2, 1))
            .at(4, request("beta", Some(2)))
            .at(5, ended("beta", 2, 1, Outcome::Success))
            .at(5, over(1, 2))
            .accepted(check());
    }

    #[test]
    fn a_request_without_an_attempt_or_a_second_one_is_rejected() {
        let story = Story::new().at(1, sent("alpha", 1, 1)).at(2, request("alpha", Some(1)));
        story.accepted(check());
        story.clone().at(3, request("alpha", Some(1))).rejected(check(), "a second time");
        story.clone().at(3, request("alpha", Some(2))).rejected(check(), "which no attempt has");
        story.clone().at(3, request("alpha", None)).rejected(check(), "names no attempt");
        Story::new()
            .at(1, sent("beta", 2, 1))
            .at(3, request("alpha", Some(2)))
            .rejected(check(), "which was sent to beta");
    }

    #[test]
    fn a_success_without_a_request_is_rejected_where_the_outside_is_seen() {
        let story = Story::new().at(1, sent("alpha", 1, 1)).at(2, request("alpha", Some(1))).at(3, sent("alpha", 2, 2));
        story.at(4, ended("alpha", 2, 2, Outcome::Success)).rejected(check(), "no request of it was received");
        let journal = Story::journal(rules()).at(1, sent("alpha", 1, 1)).at(2, ended("alpha", 1, 1, Outcome::Success));
        journal.accepted(check());
    }

    #[test]
    fn a_packet_of_an_incarnation_that_is_gone_may_still_arrive() {
        Story::new()
            .at(1, sent("alpha", 1, 1))
            .at(2, World::EngineKilled { power_loss: false, point: None })
            .at(3, started(rules(), squall::base::AxisLevels::NORMAL, true))
            .at(4, sent("alpha", 1, 1))
            .at(5, request("alpha", Some(1)))
            .at(6, request("alpha", Some(1)))
            .accepted(check());
    }

    #[test]
    fn a_third_attempt_of_a_foreground_call_at_one_entry_is_rejected() {
        let twice = Story::new().at(0, called(1)).at(1, sent("alpha", 1, 1)).at(2, retried("alpha", 2, 1));
        twice.accepted(check());
        twice.at(3, retried("alpha", 3, 1)).rejected(check(), "attempt 3 at alpha, allowed are 2");
    }

    #[test]
    fn a_seventh_attempt_of_a_call_is_rejected() {
        let background =
            Event::CallStarted { call: 1, chain: "chat".into(), class: CallClass::Background, stream: false };
        let mut story = Story::new().at(0, background);
        for (i, entry) in ["alpha", "alpha", "alpha", "beta", "beta", "gamma"].into_iter().enumerate() {
            story = story.at(i as u64, sent(entry, i as u64, 1));
        }
        story.accepted(check());
        story.at(9, sent("gamma", 9, 1)).rejected(check(), "made attempt 7, allowed are 6");
    }

    #[test]
    fn a_call_that_miscounts_its_attempts_is_rejected() {
        Story::new().at(0, called(1)).at(1, sent("alpha", 1, 1)).at(2, over(1, 2)).rejected(check(), "says it made 2");
    }

    #[test]
    fn retries_beyond_their_budget_are_rejected() {
        let three = (1..=3).fold(Story::new(), |story, i| story.at(i, retried("alpha", i, i)));
        three.accepted(check());
        three.clone().at(60_001, retried("alpha", 4, 4)).accepted(check());
        three.at(60_000, retried("alpha", 4, 4)).rejected(check(), "4 retries within a minute with 0 calls");
    }

    #[test]
    fn an_item_with_all_its_attempts_used_that_goes_back_is_rejected() {
        let back = |attempts| Event::DeferredReleased { id: 1, not_before_ms: None, attempts, reason: "failed".into() };
        Story::new().at(1, back(4)).accepted(check());
        Story::new().at(1, back(5)).rejected(check(), "at 5 it is a dead letter");
    }
}
