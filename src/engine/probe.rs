//! Probe rounds: entries that nobody asks are asked by the engine itself.
//!
//! A round every `breaker.probe_every`, only while some entry may want one. A round is over when all of its probes
//! have answered, at the latest when the next begins; then the axes are measured, once.
//! **Source:** engine.md 3 (probe rounds). BREAKER-1.

use super::Engine;
use super::attempt::Order;
use crate::base::{EntryName, MonoTime};
use crate::breaker::round;
use crate::event::Event;
use crate::wire::Request;
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::task::spawn_local;

impl Engine {
    pub(super) fn spawn_probes(&self) {
        spawn_local(self.clone().probe_rounds());
    }

    async fn probe_rounds(self) {
        let every = self.0.rules.breaker.probe_every;
        loop {
            if !self.may_want_probes() {
                self.0.wake.probe.notified().await;
                continue;
            }
            // Rounds stand on a grid: all entries are asked together, whenever each of them went out. What a machine
            // that slept has missed is not caught up.
            let at = MonoTime((self.now().ms() / every.ms() + 1) * every.ms());
            self.0.ports.clock.sleep_until(at).await;
            self.round(at + every).await;
        }
    }

    /// Whether some entry is not closed or not confirmed after a park: only then can a round have something to ask.
    fn may_want_probes(&self) -> bool {
        self.0.core.borrow().entries.values().any(|entry| entry.gate.enabled() && !entry.gate.serves())
    }

    /// Asks all entries that want it, side by side; waits for their answers until `end`.
    async fn round(&self, end: MonoTime) {
        let now = self.now();
        let wanting: Vec<EntryName> = {
            let core = self.0.core.borrow();
            round::select(core.entries.iter().map(|(name, entry)| (name, &entry.gate, &entry.rules)), now)
        };
        if wanting.is_empty() {
            return;
        }
        let probes = wanting.len() as u32;
        self.0.core.borrow_mut().in_round = true;
        let left = Rc::new(Cell::new(probes));
        let done = Rc::new(Notify::new());
        for entry in wanting {
            let (engine, left, done) = (self.clone(), left.clone(), done.clone());
            spawn_local(async move {
                engine.probe(&entry).await;
                left.set(left.get() - 1);
                done.notify_one();
            });
        }
        while left.get() > 0 {
            let in_time = tokio::select! {
                biased;
                () = done.notified() => true,
                () = self.0.ports.clock.sleep_until(end) => false,
            };
            if !in_time {
                break;
            }
        }
        self.0.decide(|core, now| {
            core.in_round = false;
            core.events.push(Event::ProbeRound { probes });
            core.measure(now);
        });
    }

    async fn probe(&self, entry: &EntryName) {
        let use_ = match self.0.core.borrow().entries.get(entry) {
            Some(entry) => entry.use_,
            None => return,
        };
        let request = Request::probe(use_);
        let deadline = self.now() + self.0.rules.breaker.trial_deadline;
        // A refusal is no news: a call was faster at the slot. Everything else was settled by the attempt.
        let _ = self.attempt(&Order { call: None, entry, request: &request, retry: false, deadline }).await;
    }
}
