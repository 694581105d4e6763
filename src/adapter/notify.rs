//! The process's own voice: events to `tracing`, lines to stderr.

use crate::base::MonoTime;
use crate::event::Event;
use crate::port::Notify;
use std::io::Write;

#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessNotify;

impl Notify for ProcessNotify {
    fn event(&self, at: MonoTime, _event: &Event, json: &str) {
        // The JSON carries the event's name and is what the journal holds: the two can be compared word by word.
        tracing::info!(target: "squall::event", at_ms = at.ms(), "{json}");
    }

    fn line(&self, text: &str) -> bool {
        // `eprintln!` panics when stderr is gone (a closed terminal, a full disk behind it); the engine goes on.
        writeln!(std::io::stderr(), "{text}").is_ok()
    }
}
