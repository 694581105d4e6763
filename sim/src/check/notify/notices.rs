//! The part of NOTIFY-1 about notices: what was told is what had to be, once, in time.

use crate::check::Violation;
use crate::check::setting::{Setting, Start};
use crate::history::{Entry, What};
use crate::model::notice::{Due, Notices as Model};
use squall::base::{NoticePart, Rules};
use squall::event::{Event, OpenWhy};
use std::collections::VecDeque;

/// Told notices that are remembered, for those that a crash may repeat.
const RECENT_MAX: usize = 16;

#[derive(Default)]
pub struct Notices {
    setting: Setting,
    /// `None`: what went before is not known.
    model: Option<Model>,
    recent: VecDeque<(u64, Vec<NoticePart>)>,
    /// Told right before a crash, so that the engine may not know it.
    repeatable: Vec<Vec<NoticePart>>,
    /// When the way to people became free: one notice is told at a time.
    free_ms: u64,
    now: u64,
    pub judged: u64,
}

impl Notices {
    pub fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        self.now = entry.t_ms;
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        let What::Engine(event) = &entry.what else { return };
        let (Some(model), Some(rules)) = (&mut self.model, self.setting.rules()) else { return };
        let (at_ms, n) = (entry.t_ms, entry.n);
        if let Event::AxisChanged { axis, to, .. } = event {
            model.changed(rules, *axis, *to, at_ms, n);
        } else if let Event::BreakerOpened { entry, why, .. } = event {
            if [OpenWhy::Consecutive, OpenWhy::Rate, OpenWhy::TrialFailed].contains(why) {
                model.tripped(rules, entry, at_ms, n);
            }
        } else if let Event::BreakerClosed { entry } = event {
            model.closed(entry);
        } else if let Event::JournalGap { .. } = event {
            self.model = None;
        } else if let Event::NoticeSent { axis, what, entry: of, also, .. }
        | Event::NoticeUndelivered { axis, what, entry: of, also, .. } = event
        {
            let first = NoticePart { axis: *axis, what: *what, entry: of.clone() };
            let parts: Vec<NoticePart> = std::iter::once(first).chain(also.iter().cloned()).collect();
            self.told(n, parts, out);
        }
    }

    fn start(&mut self, start: &Start) {
        if start.fresh {
            self.model = Some(Model::default());
        }
        if let Some(from_ms) = start.lost_from_ms {
            let lost = self.recent.iter().filter(|(t, _)| *t >= from_ms);
            self.repeatable = lost.map(|(_, parts)| parts.clone()).collect();
        }
        self.free_ms = self.free_ms.max(self.now);
    }

    fn told(&mut self, n: u64, parts: Vec<NoticePart>, out: &mut Vec<Violation>) {
        let (Some(model), Some(rules)) = (&mut self.model, self.setting.rules()) else { return };
        self.judged += 1;
        if let Some(again) = self.repeatable.iter().position(|told| *told == parts) {
            self.repeatable.remove(again);
            return;
        }
        let due = model.take(parts.len());
        let next = model.first().cloned();
        let coalesce_ms = rules.notify.coalesce.ms();
        self.recent.push_back((self.now, parts.clone()));
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        self.free_ms = self.now;
        let due_parts: Vec<NoticePart> = due.iter().map(|due| due.part.clone()).collect();
        if due_parts != parts {
            let what = format!("a notice tells {}, expected {}", words(&parts), words(&due_parts));
            out.push(Violation::new(self.now, numbers(&due, n), what));
            return;
        }
        let (first, last) = (due.first().expect("as many as parts"), due.last().expect("as many as parts"));
        let ends_ms = first.at_ms + coalesce_ms;
        if self.now < ends_ms {
            let what = format!("a notice was told at {} ms, before {ends_ms} ms", self.now);
            out.push(Violation::new(self.now, numbers(&due, n), what));
        } else if last.at_ms > ends_ms + self.setting.late_max(ends_ms) {
            let what = format!("a notice tells what happened {} ms after its first change", last.at_ms - first.at_ms);
            out.push(Violation::new(self.now, numbers(&due, n), what));
        } else if let Some(next) = next.filter(|next| next.at_ms < ends_ms) {
            let what = format!("a notice leaves out {}, of the same moment", words(&[next.part]));
            out.push(Violation::new(self.now, [next.n, n], what));
        }
    }

    pub fn finish(&mut self, out: &mut Vec<Violation>) {
        let (Some(model), Some(rules)) = (&self.model, self.setting.rules().filter(|_| self.setting.up)) else {
            return;
        };
        let Some(first) = model.first() else { return };
        let by_ms = (first.at_ms + rules.notify.coalesce.ms()).max(self.free_ms) + telling_max_ms(rules);
        if self.now > by_ms {
            let what = format!("nobody was told {}", words(std::slice::from_ref(&first.part)));
            out.push(Violation::new(self.now, [first.n], what));
        }
    }
}

/// How long it may take to find a way that works.
fn telling_max_ms(rules: &Rules) -> u64 {
    let channels = rules.channels.len() as u64 * (rules.call.connect.ms() + rules.call.total.ms());
    channels + super::posts::posting_max_ms(rules) * 4 + 1_000
}

fn words(parts: &[NoticePart]) -> String {
    if parts.is_empty() {
        return "nothing".to_owned();
    }
    let word = |part: &NoticePart| match &part.entry {
        Some(entry) => format!("{} {}", part.what, entry),
        None => format!("{} {}", part.axis, part.what),
    };
    parts.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn numbers(due: &[Due], n: u64) -> Vec<u64> {
    due.iter().map(|due| due.n).chain([n]).collect()
}
