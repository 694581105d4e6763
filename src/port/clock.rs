//! Time: what it is, and waking up when it has come.

use super::LocalFuture;
use crate::base::{MonoTime, WallTime};

pub trait Clock {
    /// Elapsed time that survives restarts, counts suspended time and never goes back. Decides.
    fn mono(&self) -> MonoTime;
    /// UTC. Shown, never decided on.
    fn wall(&self) -> WallTime;
    /// Resolves once `mono() >= at`, at once if that is so already.
    fn sleep_until(&self, at: MonoTime) -> LocalFuture<'static, ()>;
}
