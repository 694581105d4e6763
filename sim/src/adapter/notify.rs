//! What the engine says: into the history, as long as its process lives.

use crate::history::{Outside, Recorder};
use crate::world::Host;
use squall::base::MonoTime;
use squall::event::Event;
use squall::port::Notify;
use std::cell::Cell;
use std::rc::Rc;

pub struct SimNotify {
    recorder: Recorder,
    /// A process that was killed says nothing more, whatever its destructors do.
    host: Host,
    /// Events that this incarnation has said.
    said: Rc<Cell<u64>>,
}

impl SimNotify {
    /// For a new process on `host`; `said` counts its events, from zero.
    pub fn new(recorder: Recorder, host: Host, said: Rc<Cell<u64>>) -> SimNotify {
        said.set(0);
        SimNotify { recorder, host, said }
    }
}

impl Notify for SimNotify {
    fn event(&self, _at: MonoTime, event: &Event, json: &str) {
        if self.host.is_alive() {
            self.said.set(self.said.get() + 1);
            self.recorder.engine(event, json);
        }
    }
    fn line(&self, text: &str) -> bool {
        let alive = self.host.is_alive();
        if alive {
            self.recorder.outside(Outside::StderrLine { text: text.to_owned() });
        }
        alive
    }
}
