//! What is wrong with the link to a host, as a set of properties that hold together.

use crate::scenario::Dist;
use crate::seed::Stream;

/// The state of one host's link. Everything that overlaps is in one rule: whoever sets it has combined its causes.
/// The default is a healthy link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkRule {
    /// Nobody is there: what is connected is reset at once, and a connect is refused one round trip later.
    pub refuse: bool,
    /// Packets in both directions vanish until this ends; then TCP sends them again when its timer says so (200 ms
    /// after the loss, doubling; 1 s for a connect). A client that closes meanwhile takes back what never arrived.
    pub blackhole: bool,
    /// What is connected is reset at once, and new connections at the first data.
    pub reset: bool,
    /// The host's name cannot be resolved. Connections that exist go on.
    pub dns: bool,
    /// Added on the way to the host: each round trip takes this much longer.
    pub delay: Option<Dist>,
    /// This share (0..1) of the packets is lost and arrives by retransmission: 200 ms later, 400 ms more if lost again.
    pub loss: Option<f64>,
}

/// First retransmission of a segment, in ms; doubles up to [`RTO_MAX_MS`]. As Linux has it, but for the estimate from
/// the round trips.
pub(super) const RTO_MS: u64 = 200;
pub(super) const RTO_CONNECT_MS: u64 = 1_000;
pub(super) const RTO_MAX_MS: u64 = 120_000;
/// A packet that is lost this often in a row gets through after all: a share of 1 is a blackhole, not a loss.
const LOSSES_MAX: u32 = 8;

pub(super) struct Link {
    pub(super) one_way_ms: u64,
    pub(super) rule: LinkRule,
    /// The host has no power.
    pub(super) off: bool,
    pub(super) random: Stream,
}

impl Link {
    pub(super) fn new(one_way_ms: u64, random: Stream) -> Link {
        Link { one_way_ms, rule: LinkRule::default(), off: false, random }
    }

    pub(super) fn is_healthy(&self) -> bool {
        !self.off && self.rule == LinkRule::default()
    }

    /// Nothing gets through.
    pub(super) fn is_dark(&self) -> bool {
        self.off || self.rule.blackhole
    }

    /// How much later than usual a packet arrives that is sent now over this link.
    pub(super) fn lateness_ms(&mut self, towards_host: bool, connects: bool, carries: bool) -> u64 {
        let mut late = 0;
        if let Some(delay) = self.rule.delay.filter(|_| towards_host) {
            late += delay.sample(&mut self.random).ms();
        }
        // A lost acknowledgement costs nothing: the next one says the same.
        if let Some(share) = self.rule.loss.filter(|_| carries) {
            let mut rto = if connects { RTO_CONNECT_MS } else { RTO_MS };
            for _ in 0..LOSSES_MAX {
                if !self.random.chance(share) {
                    break;
                }
                late += rto;
                rto *= 2;
            }
        }
        late
    }
}

/// When TCP sends a packet again that was lost at `since`: its first try at or after `now`.
pub(super) fn next_try_ms(since: u64, now: u64, connects: bool) -> u64 {
    let mut rto = if connects { RTO_CONNECT_MS } else { RTO_MS };
    let mut at = since + rto;
    while at < now {
        rto = (rto * 2).min(RTO_MAX_MS);
        at += rto;
    }
    at
}
