//! Limits: waits that providers state, and the engine's own on attempts and retries.

mod attempts;
mod waits;

pub use attempts::Attempts;
pub use waits::Waits;
