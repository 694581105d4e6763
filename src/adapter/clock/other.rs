//! Systems without CLOCK_BOOTTIME: time since the process started, without suspended time, and no boot has a name.
//! Good enough to try the engine out; a restart counts as a reboot.

use crate::base::Span;
use std::io;
use std::sync::OnceLock;
use std::time::Instant;

static STARTED: OnceLock<Instant> = OnceLock::new();

#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's elapsed time")]
fn now() -> Instant {
    Instant::now()
}

pub fn boottime() -> Span {
    let elapsed = now().duration_since(*STARTED.get_or_init(now));
    Span::from_ms(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

pub fn boot_id() -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not name its boots"))
}

#[derive(Clone, Default)]
pub(super) struct Timers;

impl Timers {
    pub(super) fn sleep(&self, at: Span) -> impl Future<Output = ()> + 'static {
        async move {
            loop {
                let left = at.saturating_sub(boottime());
                if left.is_zero() {
                    return;
                }
                #[expect(clippy::disallowed_methods, reason = "the clock port's own sleep, checked against the clock")]
                tokio::time::sleep(left.to_std().min(std::time::Duration::from_secs(3_600))).await;
            }
        }
    }
}
