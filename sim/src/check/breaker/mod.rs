//! Breakers: who is admitted, what opens and closes them, what leaves them alone.

mod admission;
mod neutral;

pub use admission::Admissions;
pub use neutral::Neutrals;
