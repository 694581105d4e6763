//! The engine's own clock work: deadlines of machines, group commits, the status heartbeat, the awareness tick.
//!
//! Nothing polls: each task sleeps until its next known time or until it is told that the time moved.
//! **Source:** engine.md 1, 7 (awareness tick), 8 (status file).

use super::Engine;
use super::decide::GROUP;
use crate::base::MonoTime;
use crate::event::Event;
use crate::store::journal;
use tokio::sync::Notify;
use tokio::task::spawn_local;

impl Engine {
    pub(super) fn spawn_timers(&self) {
        spawn_local(self.clone().machine_timers());
        spawn_local(self.clone().group_commits());
        spawn_local(self.clone().heartbeat());
        spawn_local(self.clone().awareness_ticks());
    }

    /// Sleeps until `at`, or for ever without one; `true`: the time has come, `false`: told to look again.
    pub(super) async fn sleep_or(&self, at: Option<MonoTime>, wake: &Notify) -> bool {
        let Some(at) = at else {
            wake.notified().await;
            return false;
        };
        tokio::select! {
            biased;
            () = wake.notified() => false,
            () = self.0.ports.clock.sleep_until(at) => true,
        }
    }

    /// Holds, open breakers, trials, parks.
    async fn machine_timers(self) {
        loop {
            let due = self.0.core.borrow().due();
            if self.sleep_or(due, &self.0.wake.timer).await {
                self.0.decide(|core, now| core.timer(now));
            }
        }
    }

    async fn group_commits(self) {
        loop {
            self.0.wake.flush.notified().await;
            let at = self.0.ports.clock.mono() + GROUP;
            self.0.ports.clock.sleep_until(at).await;
            self.0.flush();
            if !self.0.waiting.borrow().is_empty() {
                // The disk refused; what waits is tried again, a second later.
                self.0.ports.clock.sleep_until(at + crate::base::Span::from_secs(1)).await;
                self.0.wake.flush.notify_one();
            }
        }
    }

    async fn heartbeat(self) {
        let every = self.0.rules.status.every;
        loop {
            let next = self.0.status_written.get() + every;
            if next > self.0.ports.clock.mono() {
                self.0.ports.clock.sleep_until(next).await;
            }
            // A transition may have written it meanwhile: then the next beat is later.
            if self.0.status_written.get() + every <= self.0.ports.clock.mono() {
                self.0.write_status("heartbeat");
            }
        }
    }

    /// One at a time, on a fixed grid; a missed tick is skipped, never replayed.
    async fn awareness_ticks(self) {
        let every = self.0.rules.tick.every;
        let mut next = self.0.ports.clock.mono() + every;
        loop {
            self.0.ports.clock.sleep_until(next).await;
            let now = self.0.ports.clock.mono();
            let caught_up = now >= next + every;
            while next <= now {
                next = next + every;
            }
            self.0.decide(|core, now| {
                core.measure(now);
                core.events.push(Event::Tick { caught_up });
            });
            let wall = self.0.ports.clock.wall();
            // A failed pruning is tried at the next tick; `commit` has told stderr.
            let _ = self.0.commit(|tx, _, _| journal::prune(tx, wall));
            self.0.write_status("tick");
        }
    }
}
