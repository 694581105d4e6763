//! Linux: one timerfd on CLOCK_BOOTTIME serves all sleepers of a clock.
//!
//! The descriptor is set to the earliest time that anyone waits for. When it fires, the reactor wakes [`Shared`], which
//! wakes the sleepers that are due; the next one that is polled (or dropped) sets it again.

use crate::base::Span;
use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Time since the machine was booted, suspended time included.
pub fn boottime() -> Span {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("CLOCK_BOOTTIME is not negative");
    let ms = u64::try_from(now.tv_nsec).expect("nanoseconds are not negative") / 1_000_000;
    Span::from_secs(seconds) + Span::from_ms(ms)
}

/// The name of this boot of the machine: [`boottime`]s of two boots have nothing to do with each other.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Wakes sleepers at times of [`boottime`].
#[derive(Clone, Default)]
pub(super) struct Timers(Rc<Inner>);

#[derive(Default)]
struct Inner {
    /// Registered with the runtime of whoever sleeps first.
    fd: OnceCell<AsyncFd<OwnedFd>>,
    shared: Arc<Shared>,
}

/// Behind a lock only because a waker must be `Sync`; everything happens on one thread.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: BTreeMap<(Span, u64), Waker>,
    /// What the descriptor is set to, until it fires.
    armed: Option<Span>,
    last_id: u64,
}

impl Timers {
    pub(super) fn sleep(&self, at: Span) -> Sleep {
        Sleep { timers: self.0.clone(), at, id: None }
    }
}

pub(super) struct Sleep {
    timers: Rc<Inner>,
    at: Span,
    /// Given at the first poll that has to wait.
    id: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if boottime() >= self.at {
            self.leave();
            return Poll::Ready(());
        }
        {
            let mut state = self.timers.shared.lock();
            let id = self.id.unwrap_or(state.last_id + 1);
            state.last_id = state.last_id.max(id);
            state.waiting.insert((self.at, id), cx.waker().clone());
            drop(state);
            self.id = Some(id);
        }
        self.timers.arm();
        Poll::Pending
    }
}

impl Sleep {
    fn leave(&mut self) {
        if let Some(id) = self.id.take() {
            self.timers.shared.lock().waiting.remove(&(self.at, id));
            self.timers.arm();
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Inner {
    /// Sets the descriptor to the earliest time that is waited for, if it is not set to it already.
    fn arm(&self) {
        let mut state = self.shared.lock();
        let Some(((at, _), _)) = state.waiting.first_key_value() else { return };
        let at = *at;
        if state.armed == Some(at) {
            return;
        }
        state.armed = Some(at);
        drop(state);
        let fd = self.fd.get_or_init(|| {
            let fd = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
                .expect("a timer descriptor can be had");
            // SAFETY: an `OwnedFd` owns its descriptor, and this one is neither replaced nor closed before `AsyncFd` is dropped.
            let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
            fd.expect("the runtime has its I/O driver enabled")
        });
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A value of zero would switch the timer off; boot time 0 is long past whoever asks.
        let ms = at.ms().max(1);
        let value = Timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1_000 * 1_000_000).expect("under a second"),
        };
        timerfd_settime(fd.get_ref(), TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value: value })
            .expect("an absolute time is a valid setting");
        let waker = Waker::from(self.shared.clone());
        let mut cx = Context::from_waker(&waker);
        // Readiness left over from an earlier time is cleared; setting the timer has reset it in the kernel.
        while let Poll::Ready(Ok(mut guard)) = fd.poll_read_ready(&mut cx) {
            guard.clear_ready();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while it holds the lock")
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            let due = state.armed.take();
            // The first one in any case: it sets the descriptor again if it is not due itself.
            let first = state.waiting.first_key_value().map(|((at, _), _)| *at);
            let until = due.max(first);
            state.waiting.iter().take_while(|((at, _), _)| Some(*at) <= until).map(|(_, waker)| waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
