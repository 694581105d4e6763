//! What a [`Volume`](super::Volume) is made of: files, their names, who has them open, and what may come back.
//!
//! A file is kept as long as it has a name, somebody has it open, or a power loss could bring it back.

use super::contents::{Contents, Loss};
use super::lock::{FileLock, HandleId, Level};
use super::shm::Shm;
use super::trouble::Trouble;
use super::volume::{CAPACITY, Edge, Logged, Opened, Refusal, User};
use crate::seed::Stream;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub type NodeId = u64;
pub type Hook = Box<dyn FnOnce()>;

pub struct Node {
    pub name: Rc<str>,
    pub contents: Contents,
    /// Under how many names it can be found: one or none.
    pub named: bool,
    pub open: u32,
    pub lock: FileLock,
    pub shm: Option<Rc<RefCell<Shm>>>,
}

/// A change of names that is not durable yet.
pub enum Renamed {
    Made { name: Rc<str>, node: NodeId },
    Gone { name: Rc<str>, node: NodeId },
    Moved { from: Rc<str>, to: Rc<str>, node: NodeId, over: Option<NodeId> },
}

#[derive(Default)]
pub struct State {
    pub nodes: BTreeMap<NodeId, Node>,
    pub names: BTreeMap<Rc<str>, NodeId>,
    pub renamed: Vec<Renamed>,
    pub trouble: Trouble,
    /// Files that are open, by number.
    pub handles: BTreeMap<HandleId, (NodeId, User)>,
    pub next: u64,
    pub process: u64,
    /// Until when the process is blocked, if that is later than now.
    pub blocked_ms: u64,
    pub steps: u64,
    pub at_step: Vec<(u64, Edge, Hook)>,
    pub at_sync: Vec<Hook>,
    pub log: Option<Vec<Logged>>,
}

impl Node {
    pub fn leave_shm(&mut self, handle: HandleId) {
        let Some(shm) = &self.shm else { return };
        shm.borrow_mut().lock.release(handle, u8::MAX);
        shm.borrow_mut().users.retain(|user| *user != handle);
        if shm.borrow().users.is_empty() {
            self.shm = None;
        }
    }
}

impl State {
    /// Handles are released at a kill, whoever still has them.
    pub fn usable(&self, file: &Opened) -> Result<(), Refusal> {
        if self.handles.contains_key(&file.id) { Ok(()) } else { Err(Refusal::Dead) }
    }

    pub fn alive(&self, user: User) -> Result<(), Refusal> {
        match user {
            User::Process(process) if process != self.process => Err(Refusal::Dead),
            User::Process(_) | User::Outside => Ok(()),
        }
    }

    pub fn node(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a file is kept as long as it is open")
    }

    pub fn make(&mut self, name: Option<&str>) -> NodeId {
        self.next += 1;
        let node = self.next;
        let own: Rc<str> = name.unwrap_or("temporary").into();
        if name.is_some() {
            self.names.insert(own.clone(), node);
            self.renamed.push(Renamed::Made { name: own.clone(), node });
        }
        let named = name.is_some();
        let (contents, lock) = (Contents::default(), FileLock::default());
        self.nodes.insert(node, Node { name: own, contents, named, open: 0, lock, shm: None });
        node
    }

    pub fn free(&self, now: u64) -> u64 {
        let there = self.nodes.values().filter(|node| node.named || node.open > 0);
        let shm = |node: &Node| node.shm.as_ref().map_or(0, |shm| shm.borrow().bytes());
        let used: u64 = there.map(|node| node.contents.bytes().len() as u64 + shm(node)).sum();
        CAPACITY.saturating_sub(used).saturating_sub(self.trouble.taken(now))
    }

    /// Handles of these users are closed for them.
    pub fn release(&mut self, of: impl Fn(User) -> bool) {
        let gone: Vec<(HandleId, NodeId)> =
            self.handles.iter().filter(|(_, (_, user))| of(*user)).map(|(id, (node, _))| (*id, *node)).collect();
        for (id, node) in gone {
            self.handles.remove(&id);
            self.drop_locks(node, id);
            self.node(node).open -= 1;
        }
        self.forget_unused();
    }

    pub fn drop_locks(&mut self, node: NodeId, handle: HandleId) {
        let node = self.node(node);
        node.lock.lower(handle, Level::None);
        node.leave_shm(handle);
    }

    /// The name of this file is durable, and every change of names before it.
    pub fn sync_names(&mut self, id: NodeId) {
        let of = |one: &Renamed| match one {
            Renamed::Made { node, .. } | Renamed::Moved { node, .. } | Renamed::Gone { node, .. } => *node == id,
        };
        if let Some(last) = self.renamed.iter().rposition(of) {
            self.renamed.drain(..=last);
            self.forget_unused();
        }
    }

    /// Undoes the newest changes of names: none, all, or as many as are drawn.
    pub fn undo_names(&mut self, loss: Loss, stream: &mut Stream) {
        let all = self.renamed.len();
        let kept = match loss {
            Loss::All => 0,
            Loss::Nothing => all,
            Loss::Torn => usize::try_from(stream.below(all as u64 + 1)).expect("at most as many as there are"),
        };
        for one in self.renamed.split_off(kept).into_iter().rev() {
            match one {
                Renamed::Made { name, node } => {
                    self.names.remove(&name);
                    self.node(node).named = false;
                }
                Renamed::Gone { name, node } => self.name_again(name, node),
                Renamed::Moved { from, to, node, over } => {
                    self.names.remove(&to);
                    self.name_again(from, node);
                    if let Some(over) = over {
                        self.name_again(to, over);
                    }
                }
            }
        }
    }

    pub fn name_again(&mut self, name: Rc<str>, id: NodeId) {
        self.names.insert(name.clone(), id);
        let node = self.node(id);
        node.named = true;
        node.name = name;
    }

    /// Files without a name that nobody has open, and that no power loss can bring back, are gone.
    pub fn forget_unused(&mut self) {
        let State { nodes, renamed, .. } = self;
        nodes.retain(|id, node| {
            let may_return = || {
                renamed.iter().any(|one| match one {
                    Renamed::Made { node, .. } | Renamed::Gone { node, .. } => node == id,
                    Renamed::Moved { node, over, .. } => node == id || *over == Some(*id),
                })
            };
            node.named || node.open > 0 || may_return()
        });
    }
}
