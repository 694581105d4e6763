//! The part of NOTIFY-1 about the webhook: each applied transition in order, few enough tries, an end for each.
//!
//! A packet may arrive after its sender has given it up, so the order is judged on what is *begun*: no transition is
//! posted before the one before it came to its end, and none more often than the engine says it tried.

use crate::check::Violation;
use crate::check::setting::{Setting, Start};
use crate::history::{Entry, Outside, What};
use squall::base::{Axis, Level, Rules};
use squall::event::Event;
use std::collections::VecDeque;

/// What an engine that waits for an answer to begin waits at most, and a margin.
const ANSWER_MS: u64 = 11_000;
/// So many may wait: older ones fall out of what the engine keeps.
const KEPT: u64 = 200;

#[derive(Default)]
struct Posted {
    seen: u32,
    taken: bool,
}

#[derive(Default)]
pub struct Posts {
    setting: Setting,
    /// Transitions since the database was born; `None`: not known.
    count: Option<u64>,
    /// The last one that came to its end; `None`: there is no webhook, or it is not known.
    ended: Option<u64>,
    /// Of the ones after it: number, when, entry, and what it is.
    open: VecDeque<(u64, u64, u64, Axis, Level, Level)>,
    /// What the receiver saw of the one whose turn it is.
    current: Posted,
    /// When the last one ended.
    free_ms: u64,
    now: u64,
    pub judged: u64,
}

impl Posts {
    pub fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        self.now = entry.t_ms;
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        let n = entry.n;
        match &entry.what {
            What::Engine(Event::AxisChanged { axis, was, to, .. }) => {
                self.count = self.count.map(|count| count + 1);
                if let (Some(number), Some(_)) = (self.count, self.ended) {
                    self.open.push_back((number, self.now, n, *axis, *was, *to));
                }
            }
            What::Engine(Event::WebhookDelivered { transition, tries }) => {
                self.end(n, *transition, *tries, true, out);
            }
            What::Engine(Event::WebhookUndelivered { transition, tries, .. }) => {
                self.end(n, *transition, *tries, false, out);
            }
            What::Engine(Event::JournalGap { .. }) => (self.count, self.ended) = (None, None),
            What::Outside(Outside::WebhookRequest {
                kind, transition: Some(number), axis, was, to, status, ..
            }) if kind == "transition" => {
                self.request(n, *number, (axis, was, to), *status, out);
            }
            What::Engine(_) | What::Outside(_) | What::World(_) => {}
        }
    }

    fn start(&mut self, start: &Start) {
        if start.fresh {
            self.count = Some(0);
        }
        let posts = self.setting.rules().is_some_and(|rules| !rules.notify.webhook_url.is_empty());
        if !posts {
            self.ended = None;
            self.open.clear();
        } else if self.ended.is_none() {
            self.ended = self.count;
        }
        self.current = Posted::default();
        self.free_ms = self.free_ms.max(self.now);
    }

    fn request(&mut self, n: u64, number: u64, what: (&str, &str, &str), status: u16, out: &mut Vec<Violation>) {
        let (Some(ended), Some(rules)) = (self.ended, self.setting.rules()) else { return };
        self.judged += 1;
        if number <= ended {
            return; // It was on its way when its sender gave it up.
        }
        let Some((_, _, changed, axis, was, to)) = self.open.iter().find(|open| open.0 == number) else {
            let what = format!("the webhook was told of transition {number}, which has not happened");
            out.push(Violation::new(self.now, [n], what));
            return;
        };
        if what != (axis.name(), was.name(), to.name()) {
            let said = format!("{} from {} to {}", what.0, what.1, what.2);
            let what = format!("transition {number} was posted as {said}, expected {axis} from {was} to {to}");
            out.push(Violation::new(self.now, [*changed, n], what));
        } else if number != ended + 1 {
            let what = format!("transition {number} was posted before {} came to its end", ended + 1);
            out.push(Violation::new(self.now, [*changed, n], what));
        } else {
            self.current.seen += 1;
            self.current.taken |= (200..300).contains(&status);
            if self.current.seen > rules.notify.tries {
                let what = format!(
                    "transition {number} was posted {} times, expected at most {}",
                    self.current.seen, rules.notify.tries
                );
                out.push(Violation::new(self.now, [*changed, n], what));
            }
        }
    }

    fn end(&mut self, n: u64, number: u64, tries: u32, delivered: bool, out: &mut Vec<Violation>) {
        let (Some(ended), Some(rules)) = (self.ended, self.setting.rules()) else { return };
        self.judged += 1;
        let simulated = self.setting.simulated;
        let current = std::mem::take(&mut self.current);
        let wrong = if number != ended + 1 {
            Some(format!("came to its end after {ended}, expected one after the other"))
        } else if current.seen > tries {
            Some(format!("was posted {} times, the engine says {tries}", current.seen))
        } else if delivered && simulated && !current.taken {
            Some("is said to be delivered, but was not taken".to_owned())
        } else if !delivered && tries != 0 && tries != rules.notify.tries {
            Some(format!("was given up after {tries} tries, expected {}", rules.notify.tries))
        } else if !delivered && tries == 0 && self.count.is_some_and(|count| number + KEPT > count) {
            Some("was given up without a try".to_owned())
        } else {
            None
        };
        if let Some(wrong) = wrong {
            out.push(Violation::new(self.now, [n], format!("transition {number} {wrong}")));
        }
        self.ended = Some(number);
        self.free_ms = self.now;
        while self.open.front().is_some_and(|open| open.0 <= number) {
            self.open.pop_front();
        }
    }

    pub fn finish(&mut self, out: &mut Vec<Violation>) {
        let Some(rules) = self.setting.rules().filter(|_| self.setting.up) else { return };
        let Some((number, at_ms, n, ..)) = self.open.front().filter(|_| self.ended.is_some()) else { return };
        // A notice may be posted in between.
        if self.now > self.free_ms.max(*at_ms) + 2 * posting_max_ms(rules) {
            let what = format!("transition {number} was neither delivered nor given up");
            out.push(Violation::new(self.now, [*n], what));
        }
    }
}

/// How long the tries of one request may take.
pub fn posting_max_ms(rules: &Rules) -> u64 {
    let waits = (0..rules.notify.tries.saturating_sub(1))
        .fold((0u64, rules.notify.backoff.ms()), |(all, wait), _| (all.saturating_add(wait), wait.saturating_mul(2)));
    let tries = u64::from(rules.notify.tries) * (2 * rules.call.connect.ms() + ANSWER_MS);
    tries.saturating_add(waits.0)
}
