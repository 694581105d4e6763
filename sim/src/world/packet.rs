//! What the wire needs to know about a packet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use turmoil_net::{Packet, TcpFlags, TcpSegment, Transport};

/// One direction of one connection: source and destination, host and port each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow(u64);

impl Flow {
    pub(super) fn of(packet: &Packet) -> Option<Flow> {
        let segment = segment(packet)?;
        let half = |ip, port: u16| ((host_of(ip) as u64) << 16) | u64::from(port);
        Some(Flow((half(packet.src, segment.src_port) << 32) | half(packet.dst, segment.dst_port)))
    }
    pub(super) fn src(self) -> usize {
        (self.0 >> 48) as usize
    }
    pub(super) fn dst(self) -> usize {
        ((self.0 >> 16) & 0xffff) as usize
    }
}

/// The address of a host: 10.0.0.1 and on.
pub(super) fn ip(host: usize) -> IpAddr {
    let number = u16::try_from(host + 1).expect("a world has fewer than 65,535 hosts");
    let [high, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

pub(super) fn host_of(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(ip) => {
            let [_, _, high, low] = ip.octets();
            (usize::from(high) << 8 | usize::from(low)).wrapping_sub(1) & 0xffff
        }
        IpAddr::V6(_) => 0xffff,
    }
}

pub(super) fn segment(packet: &Packet) -> Option<&TcpSegment> {
    match &packet.payload {
        Transport::Tcp(segment) => Some(segment),
        Transport::Udp(_) => None,
    }
}

/// Whether TCP sees to it that the segment arrives; an acknowledgement alone may be lost.
pub(super) fn carries(segment: &TcpSegment) -> bool {
    let TcpFlags { syn, fin, rst, .. } = segment.flags;
    syn || fin || rst || !segment.payload.is_empty()
}

pub(super) fn endpoints(packet: &Packet, segment: &TcpSegment) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(packet.src, segment.src_port), SocketAddr::new(packet.dst, segment.dst_port))
}

pub(super) fn reset_packet(from: SocketAddr, to: SocketAddr) -> Packet {
    let flags = TcpFlags { rst: true, ack: true, ..TcpFlags::default() };
    let segment = TcpSegment {
        src_port: from.port(),
        dst_port: to.port(),
        seq: 0,
        ack: 0,
        flags,
        window: 0,
        payload: bytes::Bytes::new(),
    };
    Packet { src: from.ip(), dst: to.ip(), ttl: 64, payload: Transport::Tcp(segment) }
}
