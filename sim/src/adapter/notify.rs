//! What the engine says: into the history.

use crate::history::{Outside, Recorder};
use squall::base::MonoTime;
use squall::event::Event;
use squall::port::Notify;

pub struct SimNotify(Recorder);

impl SimNotify {
    pub fn new(recorder: Recorder) -> SimNotify {
        SimNotify(recorder)
    }
}

impl Notify for SimNotify {
    fn event(&self, _at: MonoTime, event: &Event, json: &str) {
        self.0.engine(event, json);
    }
    fn line(&self, text: &str) -> bool {
        self.0.outside(Outside::StderrLine { text: text.to_owned() });
        true
    }
}
