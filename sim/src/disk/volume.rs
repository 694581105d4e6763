//! The file system of a simulated machine: names, files, room, and who may still use them.
//!
//! Everything written is in the cache of the system: a kill of the process loses nothing. A power loss loses what no
//! sync has reached, sector by sector ([`super::contents`]), and names in the order in which they were changed, as a
//! journaling file system does: some of the newest changes are undone. A file's sync makes its own name durable, and
//! with it every earlier change.
//!
//! **Time:** an operation of a slow disk, and SQLite's wait for a lock, block the whole process, as they block a
//! single-threaded engine's. Nothing sleeps in here: the cost is handed to the machine, whose process gets no turn
//! and sends nothing until it is paid, and for this disk it is that much later at once.
//!
//! Over 400 lines, for everything that can be asked of a disk is one list; [`super::state`] is what it is asked of.
//! **Source:** storage.md B.1; scenario.md, "disk".

use super::contents::Loss;
use super::lock::{HandleId, Level, WRITER};
use super::shm::{REGION, Shm};
use super::state::{NodeId, Renamed, State};
use crate::scenario::{DiskCode, DiskFault, DiskOp};
use crate::seed::Stream;
use std::cell::RefCell;
use std::rc::Rc;

/// What a disk has room for when nothing fills it.
pub const CAPACITY: u64 = 1 << 30;

/// The machine that a disk is in.
pub trait Machine {
    fn now_ms(&self) -> u64;
    /// Its process waits for the disk until then.
    fn block_until_ms(&self, at_ms: u64);
}

/// Who uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The engine's process, by its number: once it is killed, nothing of it reaches the disk.
    Process(u64),
    /// Another process of the machine, or the harness itself: no fault hits it, and a kill does not end it.
    Outside,
}

/// Why an operation did not happen, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the disk says {0:?}")]
    Disk(DiskCode),
    #[error("there is no such file")]
    NotFound,
    #[error("the process is dead")]
    Dead,
}

/// An operation as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub file: String,
    pub step: Step,
    pub at: u64,
    pub len: u64,
}

/// What changes a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Write,
    Truncate,
    Sync,
    Rename,
    Delete,
    SyncDir,
}

/// On which side of a step something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Before,
    After,
}

/// An open file. Give it back with [`Volume::close`].
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub id: HandleId,
    pub(super) node: NodeId,
    pub(super) user: User,
}

/// Cheap to clone; all clones are one disk.
#[derive(Clone)]
pub struct Volume(Rc<Inner>);

struct Inner {
    state: RefCell<State>,
    machine: Box<dyn Machine>,
}

impl Volume {
    pub fn new(machine: impl Machine + 'static) -> Volume {
        Volume(Rc::new(Inner { state: RefCell::default(), machine: Box::new(machine) }))
    }

    /// The engine's process that is alive now.
    pub fn process(&self) -> User {
        User::Process(self.0.state.borrow().process)
    }

    /// SIGKILL: from now on the process reaches nothing here, and its locks are free. Everything written stays.
    pub fn kill(&self) {
        let mut state = self.0.state.borrow_mut();
        state.process += 1;
        state.blocked_ms = 0;
        state.release(|user| user != User::Outside);
    }

    /// The power is cut: as [`Volume::kill`], for every process; and what is not synced may be lost.
    pub fn lose_power(&self, stream: &mut Stream) {
        let now = self.trouble_ms();
        let mut state = self.0.state.borrow_mut();
        state.process += 1;
        state.blocked_ms = 0;
        state.release(|_| true);
        let loss = Loss::drawn(stream);
        let garble = state.trouble.corrupts(now);
        state.undo_names(loss, stream);
        for node in state.nodes.values_mut() {
            node.contents.lose(loss, garble, stream);
        }
        state.renamed.clear();
        state.forget_unused();
    }

    /// A fault of the disk begins. It is over at `until_ms`, or at [`Volume::heal`].
    pub fn ail(&self, line: u32, fault: DiskFault, until_ms: u64, stream: Stream) {
        let now = self.now_ms();
        let mut state = self.0.state.borrow_mut();
        let free = state.free(now);
        state.trouble.begin(line, fault, now, until_ms, free, stream);
    }

    pub fn heal(&self, line: u32) {
        self.0.state.borrow_mut().trouble.end(line);
    }

    /// Bytes that can still be written.
    pub fn free(&self) -> u64 {
        self.0.state.borrow().free(self.now_ms())
    }

    /// Milliseconds since the start, as the process has them that waits for this disk.
    pub fn now_ms(&self) -> u64 {
        self.0.machine.now_ms().max(self.0.state.borrow().blocked_ms)
    }

    /// The time for what is wrong with the disk. While nothing is, nobody needs it and the clock is not asked.
    fn trouble_ms(&self) -> u64 {
        if self.0.state.borrow().trouble.is_empty() { 0 } else { self.now_ms() }
    }

    /// The process waits for the disk.
    pub fn block(&self, ms: u64) {
        if ms > 0 {
            let until = self.now_ms() + ms;
            self.0.state.borrow_mut().blocked_ms = until;
            self.0.machine.block_until_ms(until);
        }
    }

    /// Steps of the engine so far; the next is this one plus one.
    pub fn steps(&self) -> u64 {
        self.0.state.borrow().steps
    }

    /// Does something before or after the engine's step with this number (the first is 1). It may use this disk.
    pub fn at_step(&self, step: u64, edge: Edge, then: impl FnOnce() + 'static) {
        self.0.state.borrow_mut().at_step.push((step, edge, Box::new(then)));
    }

    /// Does something after the engine's next sync that succeeds, whether it lies or not. It may use this disk.
    pub fn at_sync(&self, then: impl FnOnce() + 'static) {
        self.0.state.borrow_mut().at_sync.push(Box::new(then));
    }

    /// From now on every step of the engine is written down.
    pub fn keep_log(&self) {
        self.0.state.borrow_mut().log.get_or_insert_default();
    }

    pub fn log(&self) -> Vec<Logged> {
        self.0.state.borrow().log.clone().unwrap_or_default()
    }

    /// The bytes of a file, for the harness.
    pub fn read_all(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.0.state.borrow();
        let node = state.names.get(name)?;
        Some(state.nodes[node].contents.bytes().to_vec())
    }

    pub fn names(&self) -> Vec<Rc<str>> {
        self.0.state.borrow().names.keys().cloned().collect()
    }

    /// Opens a file, making it if that is asked for. Without a name: one that is gone when it is closed.
    pub fn open(&self, name: Option<&str>, make: bool, user: User) -> Result<Opened, Refusal> {
        let mut state = self.0.state.borrow_mut();
        state.alive(user)?;
        let found = name.and_then(|name| state.names.get(name).copied());
        let node = match found {
            Some(node) => node,
            None if !make => return Err(Refusal::NotFound),
            None => state.make(name),
        };
        state.node(node).open += 1;
        state.next += 1;
        let id = state.next;
        state.handles.insert(id, (node, user));
        Ok(Opened { id, node, user })
    }

    pub fn close(&self, file: &Opened) {
        let mut state = self.0.state.borrow_mut();
        if state.handles.remove(&file.id).is_some() {
            state.drop_locks(file.node, file.id);
            state.node(file.node).open -= 1;
            state.forget_unused();
        }
    }

    /// How much could be read.
    pub fn read(&self, file: &Opened, at: u64, into: &mut [u8]) -> Result<usize, Refusal> {
        self.admit(file.user, DiskOp::Read)?;
        let mut state = self.0.state.borrow_mut();
        state.usable(file)?;
        let bytes = state.node(file.node).contents.bytes();
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let len = into.len().min(bytes.len() - from);
        into[..len].copy_from_slice(&bytes[from..from + len]);
        Ok(len)
    }

    /// On a full disk the part that fits is written, as `write(2)` does.
    pub fn write(&self, file: &Opened, at: u64, data: &[u8]) -> Result<(), Refusal> {
        self.step(
            file.user,
            Step::Write,
            || (self.name(file), at, data.len() as u64),
            || {
                self.admit(file.user, DiskOp::Write)?;
                let now = self.trouble_ms();
                let mut state = self.0.state.borrow_mut();
                state.usable(file)?;
                let free = state.free(now);
                let contents = &mut state.node(file.node).contents;
                let at = usize::try_from(at).expect("simulated files are short");
                let fits = usize::try_from(free).unwrap_or(usize::MAX).saturating_add(contents.bytes().len());
                let len = data.len().min(fits.saturating_sub(at));
                if len > 0 {
                    contents.write(at, &data[..len]);
                }
                if len < data.len() { Err(Refusal::Disk(DiskCode::Full)) } else { Ok(()) }
            },
        )
    }

    pub fn truncate(&self, file: &Opened, len: u64) -> Result<(), Refusal> {
        self.step(
            file.user,
            Step::Truncate,
            || (self.name(file), len, 0),
            || {
                self.admit(file.user, DiskOp::Write)?;
                let now = self.trouble_ms();
                let mut state = self.0.state.borrow_mut();
                state.usable(file)?;
                let free = state.free(now);
                let contents = &mut state.node(file.node).contents;
                if len > contents.bytes().len() as u64 + free {
                    return Err(Refusal::Disk(DiskCode::Full));
                }
                contents.truncate(usize::try_from(len).expect("simulated files are short"));
                Ok(())
            },
        )
    }

    pub fn sync(&self, file: &Opened) -> Result<(), Refusal> {
        let synced = self.step(
            file.user,
            Step::Sync,
            || (self.name(file), 0, 0),
            || {
                let admitted = self.admit(file.user, DiskOp::Sync);
                let now = self.trouble_ms();
                let mut state = self.0.state.borrow_mut();
                state.usable(file)?;
                if let Err(refusal) = admitted {
                    state.node(file.node).contents.sync_failed();
                    return Err(refusal);
                }
                if !state.trouble.sync_lies(now) {
                    state.node(file.node).contents.sync();
                    state.sync_names(file.node);
                }
                Ok(())
            },
        );
        if synced.is_ok() && file.user != User::Outside {
            let hooks = std::mem::take(&mut self.0.state.borrow_mut().at_sync);
            hooks.into_iter().for_each(|then| then());
            self.0.state.borrow().usable(file)?;
        }
        synced
    }

    pub fn len(&self, file: &Opened) -> Result<u64, Refusal> {
        let mut state = self.0.state.borrow_mut();
        state.usable(file)?;
        Ok(state.node(file.node).contents.bytes().len() as u64)
    }

    /// Whether there is a file of this name that is not empty, as SQLite asks.
    pub fn holds(&self, name: &str) -> bool {
        let state = self.0.state.borrow();
        state.names.get(name).is_some_and(|node| !state.nodes[node].contents.bytes().is_empty())
    }

    pub fn rename(&self, from: &str, to: &str, user: User) -> Result<(), Refusal> {
        self.step(
            user,
            Step::Rename,
            || (from.into(), 0, 0),
            || {
                let mut state = self.0.state.borrow_mut();
                let node = state.names.remove(from).ok_or(Refusal::NotFound)?;
                let to: Rc<str> = to.into();
                let over = state.names.insert(to.clone(), node);
                if let Some(over) = over {
                    state.node(over).named = false;
                }
                state.node(node).name = to.clone();
                state.renamed.push(Renamed::Moved { from: from.into(), to, node, over });
                Ok(())
            },
        )
    }

    pub fn delete(&self, name: &str, user: User) -> Result<(), Refusal> {
        self.step(
            user,
            Step::Delete,
            || (name.into(), 0, 0),
            || {
                let mut state = self.0.state.borrow_mut();
                let node = state.names.remove(name).ok_or(Refusal::NotFound)?;
                state.node(node).named = false;
                state.renamed.push(Renamed::Gone { name: name.into(), node });
                Ok(())
            },
        )
    }

    /// Every name is durable as it is now.
    pub fn sync_dir(&self, user: User) -> Result<(), Refusal> {
        self.step(
            user,
            Step::SyncDir,
            || (".".into(), 0, 0),
            || {
                self.admit(user, DiskOp::Sync)?;
                let now = self.trouble_ms();
                let mut state = self.0.state.borrow_mut();
                if !state.trouble.sync_lies(now) {
                    state.renamed.clear();
                    state.forget_unused();
                }
                Ok(())
            },
        )
    }

    /// Whether the file has this lock now.
    pub fn lock(&self, file: &Opened, level: Level) -> Result<bool, Refusal> {
        let now = self.trouble_ms();
        let mut state = self.0.state.borrow_mut();
        state.usable(file)?;
        if level >= Level::Reserved && file.user != User::Outside && state.trouble.lock_held(now) {
            return Ok(false);
        }
        Ok(state.node(file.node).lock.raise(file.id, level))
    }

    pub fn unlock(&self, file: &Opened, level: Level) {
        let mut state = self.0.state.borrow_mut();
        if state.handles.contains_key(&file.id) {
            state.node(file.node).lock.lower(file.id, level);
        }
    }

    pub fn is_reserved(&self, file: &Opened) -> Result<bool, Refusal> {
        let mut state = self.0.state.borrow_mut();
        state.usable(file)?;
        Ok(state.node(file.node).lock.is_reserved())
    }

    /// The shared memory of a database, with at least this many regions if it may grow.
    ///
    /// **Errors:** [`DiskCode::Full`] if it has to grow and there is no room: on a real disk it is a file too.
    pub fn shm(&self, file: &Opened, regions: usize, grow: bool) -> Result<Rc<RefCell<Shm>>, Refusal> {
        let now = self.trouble_ms();
        let mut state = self.0.state.borrow_mut();
        state.usable(file)?;
        let shm = state.node(file.node).shm.get_or_insert_default().clone();
        if !shm.borrow().users.contains(&file.id) {
            shm.borrow_mut().users.push(file.id);
        }
        while grow && shm.borrow().regions() < regions {
            if file.user != User::Outside && state.free(now) < REGION as u64 {
                return Err(Refusal::Disk(DiskCode::Full));
            }
            shm.borrow_mut().grow();
        }
        Ok(shm)
    }

    /// Whether the slots of a shared memory can be locked for this file now.
    pub fn lock_shm(&self, file: &Opened, shm: &RefCell<Shm>, slots: u8, shared: bool) -> Result<bool, Refusal> {
        let now = self.trouble_ms();
        let state = self.0.state.borrow();
        state.usable(file)?;
        let lock = &mut shm.borrow_mut().lock;
        if shared {
            return Ok(lock.share(file.id, slots));
        }
        let held = slots & WRITER != 0 && file.user != User::Outside && state.trouble.lock_held(now);
        Ok(!held && lock.exclude(file.id, slots))
    }

    /// The file uses its shared memory no more; with its last user it is gone.
    pub fn leave_shm(&self, file: &Opened) {
        let mut state = self.0.state.borrow_mut();
        if state.handles.contains_key(&file.id) {
            state.node(file.node).leave_shm(file.id);
        }
    }

    /// One step of the engine: counted, written down, and with what happens before and after it.
    fn step(
        &self,
        user: User,
        step: Step,
        what: impl FnOnce() -> (Rc<str>, u64, u64),
        act: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.0.state.borrow().alive(user)?;
        if user == User::Outside {
            return act();
        }
        let number = {
            let mut state = self.0.state.borrow_mut();
            state.steps += 1;
            state.steps
        };
        self.happen(number, Edge::Before);
        self.0.state.borrow().alive(user)?;
        if self.0.state.borrow().log.is_some() {
            let (file, at, len) = what();
            if let Some(log) = &mut self.0.state.borrow_mut().log {
                log.push(Logged { file: file.to_string(), step, at, len });
            }
        }
        let result = act();
        self.happen(number, Edge::After);
        self.0.state.borrow().alive(user)?;
        result
    }

    fn happen(&self, step: u64, edge: Edge) {
        let due = {
            let at_step = &mut self.0.state.borrow_mut().at_step;
            if at_step.is_empty() {
                return;
            }
            at_step.extract_if(.., |(own, side, _)| *own == step && *side == edge).collect::<Vec<_>>()
        };
        due.into_iter().for_each(|(.., then)| then());
    }

    /// What is wrong with the disk has its say.
    fn admit(&self, user: User, op: DiskOp) -> Result<(), Refusal> {
        {
            let state = self.0.state.borrow();
            state.alive(user)?;
            if user == User::Outside || state.trouble.is_empty() {
                return Ok(());
            }
        }
        let now = self.trouble_ms();
        let latency = self.0.state.borrow_mut().trouble.latency_ms(op, now);
        self.block(latency);
        match self.0.state.borrow_mut().trouble.refusal(op, now + latency) {
            Some(code) => Err(Refusal::Disk(code)),
            None => Ok(()),
        }
    }

    fn name(&self, file: &Opened) -> Rc<str> {
        self.0.state.borrow_mut().node(file.node).name.clone()
    }
}
