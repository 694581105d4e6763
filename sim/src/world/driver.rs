//! The task that delivers packets at their times; between packets the paused clock jumps.
//!
//! It has one timer, kept for the whole run and set anew by whoever puts an earlier packet on the wire, so that
//! sending does not wake it. After a delivery it looks again at what the kernels want to send: handshakes and
//! acknowledgements come from them, not from a task.

use super::World;
use super::wire::Delivered;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A simulation that reaches this has nothing left but this: 10 years.
const NEVER_MS: u64 = 10 * 365 * 86_400_000;

/// The driver's timer.
pub(super) struct Alarm {
    start: Instant,
    at_ms: u64,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    #[expect(clippy::disallowed_methods, reason = "the world's own clock")]
    pub(super) fn new(start: Instant) -> Alarm {
        let sleep = tokio::time::sleep_until(start + Duration::from_millis(NEVER_MS));
        Alarm { start, at_ms: NEVER_MS, sleep: Box::pin(sleep) }
    }

    fn set(&mut self, at_ms: u64) {
        if self.at_ms != at_ms {
            self.at_ms = at_ms;
            self.sleep.as_mut().reset(self.start + Duration::from_millis(at_ms));
        }
    }
}

impl World {
    /// A socket of some host may have something to send.
    pub(super) fn touch(&self) {
        self.0.unsent.set(true);
        if self.0.turn.get().is_none()
            && let Some(driver) = self.0.driver.borrow().as_ref()
        {
            driver.wake_by_ref();
        }
    }

    /// Puts on the wire what has been written since the last time.
    pub(super) fn collect(&self) {
        if self.0.unsent.take() {
            self.0.wire.borrow_mut().collect(Delivered::Nothing, self.now_ms());
            self.sent();
        }
    }

    /// Something is new on the wire.
    pub(super) fn sent(&self) {
        let next = self.0.wire.borrow().next_ms().unwrap_or(NEVER_MS);
        self.0.alarm.borrow_mut().set(next);
    }
}

pub(super) struct Driver(World);

impl Driver {
    pub(super) fn new(world: &World) -> Driver {
        Driver(world.clone())
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let inner = &self.0.0;
        let known = inner.driver.borrow().as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !known {
            *inner.driver.borrow_mut() = Some(cx.waker().clone());
        }
        let now = self.0.now_ms();
        loop {
            {
                let mut wire = inner.wire.borrow_mut();
                let delivered = wire.deliver(now);
                let unsent = inner.unsent.take();
                if unsent || delivered > Delivered::Acks {
                    wire.collect(if unsent { Delivered::Other } else { delivered }, now);
                }
                if wire.next_ms().is_some_and(|next| next <= now) {
                    continue;
                }
            }
            self.0.sent();
            let mut alarm = inner.alarm.borrow_mut();
            if alarm.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            assert!(alarm.at_ms < NEVER_MS, "nothing can happen any more: every task waits for another");
            // The alarm had been set to now by a packet that is delivered already.
            alarm.at_ms = u64::MAX;
        }
    }
}
