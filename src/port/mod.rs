//! The five seams between the engine and the machine it runs on. Each has one real implementation in
//! `crate::adapter` and one simulated in the harness; nothing else touches clock, network, disk, randomness or people.
//!
//! **Source:** architecture.md, "The five seams".

pub mod clock;
pub mod disk;
pub mod net;
pub mod notify;
pub mod rng;

pub use clock::Clock;
pub use disk::Disk;
pub use net::{Listener, Net, Stream};
pub use notify::Notify;
pub use rng::Rng;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// A future of the engine's single thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Everything the engine needs from the outside.
#[derive(Clone)]
pub struct Ports {
    pub clock: Rc<dyn Clock>,
    pub net: Rc<dyn Net>,
    pub disk: Rc<dyn Disk>,
    pub rng: Rc<RefCell<dyn Rng>>,
    pub notify: Rc<dyn Notify>,
}
