//! The real machine behind the five ports. The doors that clippy bans elsewhere are open here, one by one.
//!
//! **Source:** architecture.md, "The five seams"; engine.md 1.

pub mod clock;
pub mod disk;
pub mod net;
pub mod notify;
pub mod process;
pub mod rng;
pub mod zone;

pub use clock::BootClock;
pub use disk::DataDir;
pub use net::TokioNet;
pub use notify::ProcessNotify;
pub use rng::OsSeededRng;
