//! Faults of the engine's process: `kill`, `power_loss`, at a time or at a moment that is named by what happens.
//!
//! A stop at a time falls between two turns of the process. One at a *point* falls in the middle of a turn: right after
//! the n-th event of that name was recorded, but not before an event of the engine is durable (those of routing wait
//! for their group), or right after the n-th step of its disk. From that instant nothing of the process reaches disk,
//! network or history. What it had committed and not yet said is then told from the journal, which is the engine's
//! word too. The engine must lose nothing acknowledged; routing facts younger than 100 ms may be lost.
//!
//! Whatever keeps the engine down, by line: it is started again when nothing does.
//! **Source:** scenario.md, "process"; harness.md DISK-1, CONSERVE-1.

use super::disk::{DamageError, DiskFaults};
use crate::adapter::SimDisk;
use crate::disk::Edge;
use crate::history::{Entry, Recorder, Sink, What, World as WorldEvent};
use crate::scenario::{Fault, FaultKind, Point, ProcessFault};
use crate::seed::{Seed, Stream};
use crate::world::Host;
use squall::base::Span;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use tokio::sync::Notify;

/// The engine's machine: what stops its process, and starts it again. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Rc<Inner>);

struct Inner {
    host: Host,
    disk: SimDisk,
    disk_faults: DiskFaults,
    recorder: Recorder,
    start: Box<dyn Fn()>,
    /// Events that the running incarnation has said.
    said: Rc<Cell<u64>>,
    /// Of power losses.
    stream: RefCell<Stream>,
    /// The faults that keep it down.
    down: RefCell<BTreeSet<u32>>,
    points: RefCell<Vec<Armed>>,
    hits: RefCell<Vec<Hit>>,
    hit: Notify,
    failed: RefCell<Option<DamageError>>,
    failure: Notify,
}

/// A stop that waits for its point.
struct Armed {
    line: u32,
    power: bool,
    point: Point,
    restart_after: Option<Span>,
    active: bool,
    seen: u64,
}

/// A process that is dead, and still has to be taken away.
struct Hit {
    line: u32,
    power: bool,
    point: String,
    restart_after: Option<Span>,
}

impl Engine {
    /// `start` starts a process on `host` with `disk` and a notify port that counts into `said`.
    pub fn new(
        host: &Host,
        disk: &SimDisk,
        recorder: &Recorder,
        seed: &Seed,
        said: Rc<Cell<u64>>,
        start: impl Fn() + 'static,
    ) -> Engine {
        Engine(Rc::new(Inner {
            host: host.clone(),
            disk: disk.clone(),
            disk_faults: DiskFaults::new(disk.clone()),
            recorder: recorder.clone(),
            start: Box::new(start),
            said,
            stream: RefCell::new(seed.stream("disk.power_loss")),
            down: RefCell::default(),
            points: RefCell::default(),
            hits: RefCell::default(),
            hit: Notify::new(),
            failed: RefCell::default(),
            failure: Notify::new(),
        }))
    }

    pub fn disk_faults(&self) -> &DiskFaults {
        &self.0.disk_faults
    }

    /// Why it could not be started again as the drill says.
    pub async fn failed(&self) -> DamageError {
        loop {
            let failure = self.0.failure.notified();
            if let Some(error) = self.0.failed.take() {
                return error;
            }
            failure.await;
        }
    }

    /// Prepares the stops at points. To be called before the engine's start.
    pub fn arm(&self, faults: &[Fault]) {
        for fault in faults {
            if let FaultKind::Process(ProcessFault::Stop { power, point: Some(point), restart_after }) = &fault.kind {
                let (power, point, restart_after) = (*power, point.clone(), *restart_after);
                if point.event == Point::WRITE {
                    let (engine, line) = (Rc::downgrade(&self.0), fault.line);
                    self.0.disk.volume().at_step(point.nth, Edge::After, move || at_point(&engine, line));
                }
                let armed = Armed { line: fault.line, power, point, restart_after, active: false, seen: 0 };
                self.0.points.borrow_mut().push(armed);
            }
        }
        if self.0.points.borrow().is_empty() {
            return;
        }
        self.0.host.world().spawn(self.clone().take_away());
        self.0.recorder.also(Rc::new(RefCell::new(Watch(Rc::downgrade(&self.0)))));
    }

    pub fn begin(&self, line: u32, fault: &ProcessFault) {
        match fault {
            ProcessFault::Stop { power, point: None, .. } => {
                if self.0.host.is_alive() {
                    self.freeze(*power);
                    self.end_process(*power, None);
                }
                self.0.down.borrow_mut().insert(line);
            }
            ProcessFault::Stop { point: Some(_), .. } => self.activate(line, true),
        }
    }

    pub fn end(&self, line: u32, fault: &ProcessFault) {
        match fault {
            ProcessFault::Stop { .. } => {
                self.activate(line, false);
                self.let_up(line);
            }
        }
    }

    fn activate(&self, line: u32, active: bool) {
        if let Some(armed) = self.0.points.borrow_mut().iter_mut().find(|armed| armed.line == line) {
            armed.active = active;
        }
    }

    /// This fault keeps the engine down no longer.
    fn let_up(&self, line: u32) {
        let was_down = self.0.down.borrow_mut().remove(&line);
        if !was_down || !self.0.down.borrow().is_empty() {
            return;
        }
        if let Err(error) = self.0.disk_faults.damage_rows() {
            *self.0.failed.borrow_mut() = Some(error);
            self.0.failure.notify_one();
            return;
        }
        self.0.recorder.world(WorldEvent::EngineRestarted);
        (self.0.start)();
    }

    /// From now on the process reaches nothing.
    fn freeze(&self, power: bool) {
        let volume = self.0.disk.volume();
        if power {
            volume.lose_power(&mut self.0.stream.borrow_mut());
        } else {
            volume.kill();
        }
        self.0.host.doom(power);
    }

    fn end_process(&self, power: bool, point: Option<String>) {
        if power {
            self.0.host.power_cut();
        } else {
            self.0.host.kill();
        }
        self.tell_the_rest();
        self.0.recorder.world(WorldEvent::EngineKilled { power_loss: power, point });
    }

    /// What was committed and not said: the process was killed between the two.
    fn tell_the_rest(&self) {
        // A journal that cannot be read says nothing now; the next start will say why.
        let Ok(rest) = self.0.disk.journaled(self.0.said.get()) else { return };
        for json in rest {
            // What a lying disk made of a row is no word of the engine's.
            if let Ok(event) = serde_json::from_str(&json) {
                self.0.recorder.engine(&event, &json);
            }
        }
    }

    /// The moment of a fault has come. Called in the middle of anything: what follows is for [`Engine::take_away`].
    fn at_point(&self, line: u32) {
        let points = self.0.points.borrow();
        let armed = points.iter().find(|armed| armed.line == line).expect("armed before the start");
        if armed.active && self.0.host.is_alive() {
            let Armed { power, restart_after, .. } = *armed;
            let point = armed.point.event.clone();
            drop(points);
            self.freeze(power);
            self.0.down.borrow_mut().insert(line);
            self.0.hits.borrow_mut().push(Hit { line, power, point, restart_after });
            self.0.hit.notify_one();
        }
    }

    async fn take_away(self) {
        loop {
            self.0.hit.notified().await;
            for Hit { line, power, point, restart_after } in self.0.hits.take() {
                self.end_process(power, Some(point));
                if let Some(after) = restart_after {
                    let (engine, world) = (self.clone(), self.0.host.world().clone());
                    self.0.host.world().spawn(async move {
                        world.sleep(after).await;
                        engine.let_up(line);
                    });
                }
            }
        }
    }

    /// Whether everything that the running incarnation has said is in its journal.
    fn all_is_durable(&self) -> bool {
        let said = self.0.said.get();
        said == 0 || self.0.disk.journaled(said - 1).is_ok_and(|rest| !rest.is_empty())
    }
}

/// For hooks of what the engine's machine owns: they do not keep it.
fn at_point(engine: &Weak<Inner>, line: u32) {
    if let Some(inner) = engine.upgrade() {
        Engine(inner).at_point(line);
    }
}

/// Counts the events that stops wait for.
struct Watch(Weak<Inner>);

impl Sink for Watch {
    fn entry(&mut self, entry: &Entry, _line: &str) {
        let Some(inner) = self.0.upgrade() else { return };
        let engine = Engine(inner);
        let name = entry.what.name();
        let of_the_engine = matches!(entry.what, What::Engine(_));
        let mut due = Vec::new();
        for armed in engine.0.points.borrow_mut().iter_mut().filter(|armed| armed.point.event == name) {
            armed.seen += 1;
            if armed.seen == armed.point.nth && armed.active {
                due.push(armed.line);
            }
        }
        for line in due {
            if of_the_engine && engine.0.host.is_alive() && !engine.all_is_durable() {
                let weak = self.0.clone();
                engine.0.disk.volume().at_sync(move || at_point(&weak, line));
            } else {
                engine.at_point(line);
            }
        }
    }
}
