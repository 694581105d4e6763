//! Numbers, stamps and hands on each event, once, to everything that reads a history.

use super::{Entry, Outside, What, World};
use serde::Serialize;
use squall::event::Event;
use std::cell::RefCell;
use std::rc::Rc;

/// Something that reads a history as it is made. `line` is the entry as one line of `history.jsonl`, without the
/// line break.
pub trait Sink {
    fn entry(&mut self, entry: &Entry, line: &str);
}

/// Cheap to clone; all clones write the same history.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Inner>>);

struct Inner {
    next: u64,
    /// Simulated milliseconds since the start of the run.
    now: Box<dyn Fn() -> u64>,
    sinks: Vec<Rc<RefCell<dyn Sink>>>,
    line: Vec<u8>,
    closed: bool,
}

impl Recorder {
    pub fn new(now: impl Fn() -> u64 + 'static, sinks: Vec<Rc<RefCell<dyn Sink>>>) -> Recorder {
        Recorder(Rc::new(RefCell::new(Inner { next: 0, now: Box::new(now), sinks, line: Vec::new(), closed: false })))
    }

    pub fn outside(&self, event: Outside) {
        self.push(What::Outside(event), None);
    }

    pub fn world(&self, event: World) {
        self.push(What::World(event), None);
    }

    /// `json`: the event as the engine serialised it for its journal, so that it is not done twice.
    pub fn engine(&self, event: &Event, json: &str) {
        self.push(What::Engine(event.clone()), Some(json));
    }

    /// From now on this sink sees every event too.
    pub fn also(&self, sink: Rc<RefCell<dyn Sink>>) {
        self.0.borrow_mut().sinks.push(sink);
    }

    /// The run is over: nothing that comes later is written.
    pub fn close(&self) {
        self.0.borrow_mut().closed = true;
    }

    fn push(&self, what: What, json: Option<&str>) {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        if inner.closed {
            return;
        }
        let entry = Entry { n: inner.next, t_ms: (inner.now)(), what };
        inner.next += 1;
        inner.line.clear();
        let head = match &entry.what {
            What::Engine(_) => "engine",
            What::Outside(_) => "outside",
            What::World(_) => "world",
        };
        // By hand: the entry's own serialisation goes through a map, which costs more than the rest of a line.
        inner.line.extend_from_slice(b"{\"n\":");
        append(&mut inner.line, &entry.n);
        inner.line.extend_from_slice(b",\"t_ms\":");
        append(&mut inner.line, &entry.t_ms);
        inner.line.extend_from_slice(b",\"from\":\"");
        inner.line.extend_from_slice(head.as_bytes());
        inner.line.push(b'"');
        let brace = inner.line.len();
        match (&entry.what, json) {
            (_, Some(json)) => inner.line.extend_from_slice(json.as_bytes()),
            (What::Engine(event), None) => append(&mut inner.line, event),
            (What::Outside(event), None) => append(&mut inner.line, event),
            (What::World(event), None) => append(&mut inner.line, event),
        }
        inner.line[brace] = b','; // The event's fields go on in the entry's object.
        let line = std::str::from_utf8(&inner.line).expect("JSON is UTF-8");
        for sink in &inner.sinks {
            sink.borrow_mut().entry(&entry, line);
        }
    }
}

fn append(line: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(line, value).expect("events have no keys or numbers that JSON lacks");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Vec<(Entry, String)>);
    impl Sink for Lines {
        fn entry(&mut self, entry: &Entry, line: &str) {
            self.0.push((entry.clone(), line.to_owned()));
        }
    }

    #[test]
    fn nothing_is_written_after_the_end() {
        let lines = Rc::new(RefCell::new(Lines::default()));
        let recorder = Recorder::new(|| 1, vec![lines.clone()]);
        recorder.world(World::RunEnded);
        recorder.close();
        recorder.world(World::Healed);
        assert_eq!(lines.borrow().0.len(), 1);
    }

    #[test]
    fn a_line_reads_back_as_the_entry_it_was_made_from() {
        let lines = Rc::new(RefCell::new(Lines::default()));
        let recorder = Recorder::new(|| 812_400, vec![lines.clone()]);
        recorder.world(World::Healed);
        recorder.outside(Outside::StderrLine { text: "a \"b\"".into() });
        let event = Event::Tick { caught_up: false };
        recorder.engine(&event, &serde_json::to_string(&event).unwrap());
        let lines = lines.borrow();
        assert_eq!(lines.0.len(), 3);
        for (entry, line) in &lines.0 {
            assert_eq!(&serde_json::from_str::<Entry>(line).unwrap(), entry, "{line}");
        }
        assert!(lines.0[2].1.starts_with(r#"{"n":2,"t_ms":812400,"from":"engine","event":"tick""#));
    }
}
