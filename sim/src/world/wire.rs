//! Packets between hosts: when each arrives, and what stands in its way.
//!
//! Between the hosts' kernels (turmoil-net's: handshake, FIN, RST, windows) packets wait here in order of arrival.
//! Faults are judged when a packet *arrives*, so that they also hold for what is on its way when they start; delays
//! are drawn when it is sent. turmoil-net takes segments in order only and its own retransmission counts calls, not
//! time, so it is switched off and this module never lets one packet of a connection overtake another and never loses
//! one for good: what cannot get through waits in [`Wire::lost`] and is sent again at the time TCP would.
//!
//! An acknowledgement of data tells nobody anything unless a sender waits for room, so while none can, it is delivered
//! with the next packet of any connection instead of having a time jump of its own ([`Wire::acks`]).
//!
//! **Source:** architecture.md, "The simulated network: events, not ticks".

use super::link::{Link, LinkRule, next_try_ms};
use super::lost::Lost;
use super::packet::{Flow, carries, endpoints, host_of, ip, reset_packet, segment};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use turmoil_net::{EnterGuard, HostId, KernelConfig, Net, NetstatState, Packet, TcpFlags, netstat};

/// Bytes a socket holds unread; turmoil-net announces half of it read.
pub(super) const RECV_BUF: usize = 64 * 1024;
/// While fewer bytes are on the wire at once and every window is wider than [`WINDOW_MIN`], no sender waits for an
/// acknowledgement: what is unacknowledged was sent within one round trip, so it is less than twice as much.
const BULK_MIN: usize = 16 * 1024;
const WINDOW_MIN: u16 = 48 * 1024;
/// Hosts that may be added once the network runs: turmoil-net takes none later. Each costs at every look at what the
/// kernels want to send.
const SPARE_HOSTS: usize = 1;

enum Item {
    Packet(Packet),
    /// TCP's timer for what this flow lost.
    Retry(Flow),
}

impl Item {
    fn load(&self) -> usize {
        match self {
            Item::Packet(packet) => segment(packet).map_or(0, |segment| segment.payload.len()),
            Item::Retry(_) => 0,
        }
    }
}

/// What a delivery was, by what the kernels may have to say to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Delivered {
    Nothing,
    /// Acknowledgements that nobody waits for: no answer.
    Acks,
    /// Data: acknowledgements.
    Data,
    /// Anything else, and everything while something is wrong or a sender may be waiting.
    Other,
}

#[derive(Default)]
pub(super) struct Wire {
    net: Option<EnterGuard>,
    ids: Vec<HostId>,
    /// By host.
    pub(super) links: Vec<Link>,
    /// By arrival, then in the order sent.
    items: BTreeMap<(u64, u64), Item>,
    /// As `items`, of acknowledgements that have no hurry.
    acks: BTreeMap<(u64, u64), Packet>,
    sequence: u64,
    /// Bytes of data in `items`.
    load: usize,
    /// A sender may be waiting for an acknowledgement: since the load was high, until nothing is on the wire.
    bulk: bool,
    /// Some window was narrow once.
    narrow: bool,
    buffer: Vec<Packet>,
    /// Flows with a packet that arrives later than usual: none of theirs may arrive earlier.
    late: BTreeMap<Flow, u64>,
    lost: BTreeMap<Flow, Lost>,
    /// Every link is healthy, and no flow is late or has lost anything.
    calm: bool,
}

impl Wire {
    pub(super) fn new() -> Wire {
        Wire { calm: true, ..Wire::default() }
    }

    /// Adds a host's link and gives the host's index.
    pub(super) fn add(&mut self, link: Link) -> usize {
        assert!(
            self.net.is_none() || self.links.len() < self.ids.len(),
            "turmoil-net takes no hosts once it runs: add every host before the first one connects or accepts"
        );
        self.links.push(link);
        self.links.len() - 1
    }

    /// The host's socket table; the first call starts the network.
    pub(super) fn id(&mut self, host: usize) -> HostId {
        if self.net.is_none() {
            let config = KernelConfig::default().retx_threshold(u32::MAX).recv_buf_cap(RECV_BUF);
            let mut net = Net::with_config(config);
            self.ids = (0..self.links.len() + SPARE_HOSTS).map(|host| net.add_host(ip(host))).collect();
            self.net = Some(net.enter());
        }
        self.ids[host]
    }

    /// Ends the network when the guard is dropped; sockets that are still there are dead.
    pub(super) fn close(&mut self) -> Option<EnterGuard> {
        self.net.take()
    }

    pub(super) fn is_open(&self) -> bool {
        self.net.is_some()
    }

    /// When the next packet arrives.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.items.first_key_value().map(|((due, _), _)| *due)
    }

    /// Puts on the wire what the hosts' kernels want to send, after the delivery of `delivered`.
    pub(super) fn collect(&mut self, delivered: Delivered, now: u64) {
        let Some(net) = &self.net else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        net.egress_all(&mut buffer);
        for packet in buffer.drain(..) {
            self.send(packet, delivered, now);
        }
        self.buffer = buffer;
    }

    /// Hands over what arrives by `now`.
    pub(super) fn deliver(&mut self, now: u64) -> Delivered {
        let mut delivered = Delivered::Nothing;
        while let Some(key) = self.items.first_key_value().map(|(key, _)| *key).filter(|(due, _)| *due <= now) {
            self.deliver_acks(key);
            let item = self.items.remove(&key).expect("it is the first");
            delivered = delivered.max(self.deliver_item(item, key.0, now));
        }
        self.deliver_acks((now, u64::MAX));
        if self.items.is_empty() && self.acks.is_empty() {
            self.bulk = false;
        }
        delivered
    }

    fn deliver_acks(&mut self, before: (u64, u64)) {
        while let Some(first) = self.acks.first_entry().filter(|first| *first.key() < before) {
            let packet = first.remove();
            self.hand_over(packet);
        }
    }

    fn deliver_item(&mut self, item: Item, due: u64, now: u64) -> Delivered {
        let (packet, calm) = match item {
            Item::Packet(packet) => (packet, self.calm && !self.bulk && !self.narrow),
            Item::Retry(flow) => {
                self.retry(flow, due, now);
                return Delivered::Other;
            }
        };
        let Some(segment) = segment(&packet) else { return Delivered::Other };
        self.load -= segment.payload.len();
        let TcpFlags { syn, fin, rst, .. } = segment.flags;
        let delivered = match segment.payload.is_empty() {
            _ if !calm || syn || fin || rst => Delivered::Other,
            true => Delivered::Acks,
            false => Delivered::Data,
        };
        if self.calm {
            self.hand_over(packet);
        } else {
            self.arrive(packet, now);
        }
        delivered
    }

    /// Replaces a link's rule.
    pub(super) fn set_rule(&mut self, host: usize, rule: LinkRule, now: u64) {
        self.hurry_acks(now);
        let old = std::mem::replace(&mut self.links[host].rule, rule);
        let new = &self.links[host].rule;
        let breaks = (new.refuse && !old.refuse) || (new.reset && !old.reset);
        if breaks {
            self.break_connections(host, now);
        }
        self.link_changed(now);
    }

    pub(super) fn set_off(&mut self, host: usize, off: bool, now: u64) {
        self.hurry_acks(now);
        self.links[host].off = off;
        self.link_changed(now);
    }

    /// Forgets everything that `host` had sent or had connected: it lost its power.
    pub(super) fn forget(&mut self, host: usize) {
        let src = ip(host);
        self.items.retain(|_, item| match item {
            Item::Packet(packet) => packet.src != src,
            Item::Retry(flow) => flow.src() != host,
        });
        self.load = self.items.values().map(Item::load).sum();
        self.lost.retain(|flow, _| flow.src() != host);
        for (local, peer) in self.connections(host) {
            self.hand_over(reset_packet(peer, local));
        }
    }

    fn send(&mut self, packet: Packet, delivered: Delivered, now: u64) {
        let (src, dst) = (host_of(packet.src), host_of(packet.dst));
        if src.max(dst) >= self.links.len() {
            return; // An address that no host has.
        }
        let mut due = now + self.links[src].one_way_ms + self.links[dst].one_way_ms;
        if !self.calm {
            due = self.due_in_trouble(&packet, src, dst, due, now);
        }
        let hurry = !self.calm || self.bulk || self.narrow || delivered != Delivered::Data;
        match segment(&packet) {
            Some(segment) if !carries(segment) && segment.window >= WINDOW_MIN && !hurry => {
                self.sequence += 1;
                self.acks.insert((due, self.sequence), packet);
            }
            Some(segment) => {
                self.narrow |= segment.window < WINDOW_MIN && !segment.flags.rst;
                self.put(due, Item::Packet(packet));
                self.bulk |= self.load >= BULK_MIN;
            }
            None => {}
        }
    }

    fn due_in_trouble(&mut self, packet: &Packet, src: usize, dst: usize, usual: u64, now: u64) -> u64 {
        let (Some(flow), Some(segment)) = (Flow::of(packet), segment(packet)) else { return usual };
        let (connects, carries) = (segment.flags.syn, carries(segment));
        let mut due = usual;
        due += self.links[src].lateness_ms(false, connects, carries);
        due += self.links[dst].lateness_ms(true, connects, carries);
        if let Some(earlier) = self.late.get(&flow) {
            due = due.max(*earlier);
        }
        if due > usual {
            self.late.insert(flow, due);
        } else {
            self.late.remove(&flow);
            self.settle(now);
        }
        due
    }

    fn put(&mut self, due: u64, item: Item) {
        self.load += item.load();
        self.sequence += 1;
        self.items.insert((due, self.sequence), item);
    }

    /// Before links change: every packet is in its place.
    fn hurry_acks(&mut self, now: u64) {
        self.deliver_acks((now, u64::MAX));
        let acks = std::mem::take(&mut self.acks);
        self.items.extend(acks.into_iter().map(|(key, packet)| (key, Item::Packet(packet))));
    }

    fn hand_over(&self, packet: Packet) {
        if let Some(net) = &self.net {
            net.deliver(packet);
        }
    }

    /// A packet is there, while something is wrong somewhere.
    fn arrive(&mut self, packet: Packet, now: u64) {
        let (Some(flow), Some(segment)) = (Flow::of(&packet), segment(&packet)) else { return };
        if let Some(lost) = self.lost.get_mut(&flow) {
            if let Some(reset) = lost.join(packet, now) {
                self.hand_over(reset);
            }
            return;
        }
        let (source, target) = (&self.links[flow.src()], &self.links[flow.dst()]);
        if source.is_dark() || target.is_dark() {
            self.lost.insert(flow, Lost { since_ms: now, retry_ms: None, packets: vec![packet] });
        } else if !segment.flags.rst
            && (target.rule.refuse || ((source.rule.reset || target.rule.reset) && !segment.payload.is_empty()))
        {
            let (from, to) = endpoints(&packet, segment);
            let back = now + self.links[flow.src()].one_way_ms + self.links[flow.dst()].one_way_ms;
            self.put(back, Item::Packet(reset_packet(to, from)));
            if !segment.flags.syn {
                self.hand_over(reset_packet(from, to));
            }
        } else {
            self.hand_over(packet);
        }
    }

    fn retry(&mut self, flow: Flow, due: u64, now: u64) {
        let Some(lost) = self.lost.get_mut(&flow).filter(|lost| lost.retry_ms == Some(due)) else { return };
        lost.retry_ms = None;
        if self.links[flow.src()].is_dark() || self.links[flow.dst()].is_dark() {
            return; // The next change of a link sets the timer again.
        }
        let packets = self.lost.remove(&flow).map(|lost| lost.packets).unwrap_or_default();
        for packet in packets {
            self.arrive(packet, now);
        }
        self.settle(now);
    }

    fn link_changed(&mut self, now: u64) {
        let mut timers = Vec::new();
        for (flow, lost) in &mut self.lost {
            let dark = self.links[flow.src()].is_dark() || self.links[flow.dst()].is_dark();
            if !dark && lost.retry_ms.is_none() {
                let connects = lost.packets.first().and_then(segment).is_some_and(|first| first.flags.syn);
                let at = if lost.acks_only() { now } else { next_try_ms(lost.since_ms, now, connects) };
                lost.retry_ms = Some(at);
                timers.push((at, *flow));
            }
        }
        for (at, flow) in timers {
            self.put(at, Item::Retry(flow));
        }
        self.settle(now);
    }

    fn settle(&mut self, now: u64) {
        self.late.retain(|_, due| *due > now);
        self.calm = self.late.is_empty() && self.lost.is_empty() && self.links.iter().all(Link::is_healthy);
    }

    /// Resets what is connected to `host`: its own side now, its peers as soon as the news arrives.
    fn break_connections(&mut self, host: usize, now: u64) {
        for (local, peer) in self.connections(host) {
            let far = host_of(peer.ip());
            if far < self.links.len() {
                let due = now + self.links[host].one_way_ms + self.links[far].one_way_ms;
                self.put(due, Item::Packet(reset_packet(local, peer)));
            }
            self.hand_over(reset_packet(peer, local));
        }
    }

    /// The host's connections with other hosts, but for its own connects that have no answer yet.
    fn connections(&self, host: usize) -> Vec<(SocketAddr, SocketAddr)> {
        if self.net.is_none() {
            return Vec::new();
        }
        let entries = netstat(ip(host)).entries;
        let connected = |state| !matches!(state, Some(NetstatState::Listen | NetstatState::SynSent) | None);
        entries
            .into_iter()
            .filter(|entry| connected(entry.state) && entry.local.ip() == ip(host))
            .filter_map(|entry| Some((entry.local, entry.peer?)))
            .collect()
    }
}
