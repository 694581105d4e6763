//! The five ports of the engine, for its simulated host.

pub mod clock;
pub mod disk;
pub mod net;
pub mod notify;
pub mod rng;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use net::SimNet;
pub use notify::SimNotify;
pub use rng::SimRng;
