//! Changes of level: explained, on evidence, damped, and mapped to the old number.

mod evidence;
mod flap;
mod legacy;
mod measured;

pub use evidence::Evidence;
pub use flap::Flaps;
pub use legacy::Legacy;
pub use measured::Measured;
