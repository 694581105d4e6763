//! The machine's clocks: CLOCK_BOOTTIME for what is decided, the system's UTC for what is shown.
//!
//! CLOCK_BOOTTIME goes on while the machine is suspended, and so do its timers; tokio's own timers do not. Elapsed time is
//! counted from a base that whoever makes the clock has read from the database; how that base is carried over a restart
//! or a reboot is decided there, from [`boot_id`] and [`boottime`].
//! **Source:** engine.md 1.

#[cfg(target_os = "linux")]
#[path = "clock/linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "clock/other.rs"]
mod system;

pub use system::{boot_id, boottime};

use crate::base::{MonoTime, Span, WallTime};
use crate::port::{Clock, LocalFuture};
use std::time::{SystemTime, UNIX_EPOCH};

pub struct BootClock {
    /// What `mono()` said when the machine's clock stood at `started`.
    base: MonoTime,
    started: Span,
    timers: system::Timers,
}

impl BootClock {
    /// A clock whose elapsed time is `base` now and goes on from there.
    pub fn starting_at(base: MonoTime) -> BootClock {
        BootClock { base, started: boottime(), timers: system::Timers::default() }
    }
}

impl Clock for BootClock {
    fn mono(&self) -> MonoTime {
        self.base + boottime().saturating_sub(self.started)
    }

    fn wall(&self) -> WallTime {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's UTC")]
        let now = SystemTime::now();
        let ms = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        WallTime(ms)
    }

    fn sleep_until(&self, at: MonoTime) -> LocalFuture<'static, ()> {
        Box::pin(self.timers.sleep(self.started + (at - self.base)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tokio::task::{LocalSet, spawn_local};

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, work)
    }

    #[test]
    fn elapsed_time_goes_on_from_its_base() {
        let clock = BootClock::starting_at(MonoTime(86_400_000));
        let first = clock.mono();
        assert!(first >= MonoTime(86_400_000) && first < MonoTime(86_460_000), "{first:?}");
        assert!(clock.mono() >= first);
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_times_and_never_early() {
        block_on(async {
            let clock = Rc::new(BootClock::starting_at(MonoTime(5_000)));
            let woken = Rc::new(RefCell::new(Vec::new()));
            // Each in a task of its own: nobody is polled but by the timer.
            let tasks: Vec<_> = [30, 10, 0, 20]
                .map(|wait| {
                    let (clock, woken) = (clock.clone(), woken.clone());
                    spawn_local(async move {
                        let at = clock.mono() + Span::from_ms(wait);
                        clock.sleep_until(at).await;
                        assert!(clock.mono() >= at);
                        woken.borrow_mut().push(wait);
                    })
                })
                .into();
            for task in tasks {
                task.await.expect("no sleeper failed");
            }
            assert_eq!(*woken.borrow(), [0, 10, 20, 30]);
        });
    }

    #[test]
    fn a_sleeper_that_goes_away_does_not_keep_the_others_asleep() {
        block_on(async {
            let clock = Rc::new(BootClock::starting_at(MonoTime::ZERO));
            let at = clock.mono() + Span::from_ms(25);
            let late = spawn_local(clock.sleep_until(at));
            // Polled once: the timer is set to its time.
            let poll_once = async |sleeper: &mut LocalFuture<'static, ()>| {
                std::future::poll_fn(|cx| std::task::Poll::Ready(sleeper.as_mut().poll(cx).is_pending())).await
            };
            let mut dropped_before = clock.sleep_until(clock.mono() + Span::from_ms(15));
            assert!(poll_once(&mut dropped_before).await);
            drop(dropped_before);
            // And one that goes away after its time without having been polled again.
            let mut dropped_after = clock.sleep_until(clock.mono() + Span::from_ms(5));
            assert!(poll_once(&mut dropped_after).await);
            clock.sleep_until(clock.mono() + Span::from_ms(10)).await;
            drop(dropped_after);
            late.await.expect("it did not fail");
            assert!(clock.mono() >= at);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_boot_has_a_name_that_stays() {
        let id = boot_id().expect("Linux names its boots");
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(boot_id().expect("still"), id);
        assert!(boottime() > Span::ZERO);
    }
}
