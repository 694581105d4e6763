//! Time for the engine: the world's. It survives a restart of the engine as the database does.

use crate::world::World;
use squall::base::{MonoTime, WallTime};
use squall::port::{Clock, LocalFuture};

/// `mono`: simulated milliseconds since the start of the run, when the database is born; wall = `starts_at` + elapsed.
#[derive(Clone)]
pub struct SimClock {
    world: World,
    starts_at: WallTime,
}

impl SimClock {
    pub fn new(world: World, starts_at: WallTime) -> SimClock {
        SimClock { world, starts_at }
    }
}

impl Clock for SimClock {
    fn mono(&self) -> MonoTime {
        MonoTime(self.world.now_ms())
    }
    fn wall(&self) -> WallTime {
        WallTime(self.starts_at.0.saturating_add_unsigned(self.world.now_ms()))
    }
    fn sleep_until(&self, at: MonoTime) -> LocalFuture<'static, ()> {
        Box::pin(self.world.sleep_until_ms(at.ms()))
    }
}
