//! What the process tells its surroundings at once: the trace, and lines for whoever looks at stderr.

use crate::base::MonoTime;
use crate::event::Event;

pub trait Notify {
    /// One decided event, after its commit has been asked for. `json` is the event as the journal holds it.
    fn event(&self, at: MonoTime, event: &Event, json: &str);
    /// One line for people; `false`: it could not be written.
    fn line(&self, text: &str) -> bool;
}
