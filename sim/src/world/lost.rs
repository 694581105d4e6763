//! What could not get through, until TCP sends it again.

use super::packet::{carries, endpoints, reset_packet, segment};
use turmoil_net::Packet;

/// Clients' ports are at least this; it tells who opened a connection.
const EPHEMERAL_PORT_MIN: u16 = 49_152;

/// Packets of one flow that did not get through, in order.
pub(super) struct Lost {
    pub(super) since_ms: u64,
    pub(super) retry_ms: Option<u64>,
    pub(super) packets: Vec<Packet>,
}

impl Lost {
    /// Takes in a packet of the flow that is later than what it lost; the answer is a reset for its sender.
    pub(super) fn join(&mut self, packet: Packet, now: u64) -> Option<Packet> {
        let own = segment(&packet)?;
        let data = self.packets.iter().filter_map(segment).any(|lost| !lost.payload.is_empty());
        if own.flags.rst || (own.flags.fin && own.src_port >= EPHEMERAL_PORT_MIN && data) {
            // A client that gives up takes back a request which never arrived: it is not served to nobody after the
            // fault. (Linux goes on for `tcp_orphan_retries`; here that is 0.)
            let (from, to) = endpoints(&packet, own);
            self.packets = vec![reset_packet(from, to)];
            return Some(reset_packet(to, from));
        }
        if carries(own) && self.acks_only() {
            self.since_ms = now;
        }
        self.packets.push(packet);
        None
    }

    /// TCP sets no timer for acknowledgements.
    pub(super) fn acks_only(&self) -> bool {
        !self.packets.iter().filter_map(segment).any(carries)
    }
}
