//! IDEMPOTENT-1: each message to the user at most once.
//!
//! Judged at the receiver where the history has it (each part of a key), and in the engine's own words (`outreach.sent`
//! per key, a history row after a delivery, a duplicate only of something that was meant before).

use super::setting::Setting;
use super::{Check, Violation};
use crate::history::{Entry, Outside, What};
use squall::event::Event;
use std::collections::{BTreeMap, VecDeque};

/// Equal messages without an occasion are duplicates for this long.
const DUPLICATE_MS: u64 = 24 * 3_600_000;

/// Keys that are remembered, the newest.
const KEYS_MAX: usize = 100_000;

#[derive(Default)]
pub struct Outreach {
    setting: Setting,
    keys: BTreeMap<String, Key>,
    order: VecDeque<String>,
    /// Where the engine was first seen to start fresh, nothing was meant before.
    whole: bool,
    judged: u64,
}

#[derive(Default)]
struct Key {
    occasion: bool,
    meant: bool,
    in_doubt: bool,
    /// Of each part: when and in which entry it was delivered last.
    parts: BTreeMap<u32, (u64, u64)>,
    /// When and in which entry the engine said that it was sent last.
    sent: Option<(u64, u64)>,
}

impl Check for Outreach {
    fn id(&self) -> &'static str {
        "IDEMPOTENT-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if let Some(start) = self.setting.observe(entry) {
            self.whole |= start.fresh;
            return;
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry, event, out),
            What::Outside(Outside::ChannelRequest { key, part, status, recipient, .. }) => {
                if let Some(key) = key.as_ref().filter(|_| (200..300).contains(status)) {
                    self.delivered(entry, message(key, *part), *part, recipient, out);
                }
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

/// The key of the message: on the wire each part has one of its own, the message's with the part's number behind it.
fn message(key: &str, part: u32) -> &str {
    match key.rsplit_once('-') {
        Some((message, number)) if number.parse() == Ok(part) => message,
        Some(_) | None => key,
    }
}

impl Outreach {
    fn key(&mut self, key: &str) -> &mut Key {
        if !self.keys.contains_key(key) {
            if self.order.len() == KEYS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.keys.remove(&oldest);
                self.whole = false;
            }
            self.order.push_back(key.to_owned());
        }
        self.keys.entry(key.to_owned()).or_default()
    }

    fn engine(&mut self, entry: &Entry, event: &Event, out: &mut Vec<Violation>) {
        let (now, n) = (entry.t_ms, entry.n);
        let whole = self.whole;
        if let Event::OutreachIntended { key, occasion, .. } = event {
            let known = self.key(key);
            known.meant = true;
            known.occasion |= occasion.is_some();
        } else if let Event::OutreachSent { key, recipient, .. } = event {
            self.judged += 1;
            let known = self.key(key);
            let before = known.sent.replace((now, n)).filter(|before| known.binds(now, before.0));
            if let Some((_, first)) = before {
                let what = format!("key {key} for {recipient} was sent a second time");
                out.push(Violation::new(now, [first, n], what));
            }
        } else if let Event::OutreachInDoubt { key, .. } = event {
            self.key(key).in_doubt = true;
        } else if let Event::OutreachRecorded { key, recipient, .. } = event {
            self.judged += 1;
            let judge_outside = self.setting.simulated;
            let known = self.key(key);
            let wrong = if known.sent.is_none() && whole {
                "which was never sent"
            } else if judge_outside && known.parts.is_empty() && whole {
                "which no channel received"
            } else {
                return;
            };
            out.push(Violation::new(now, [n], format!("the history has key {key} for {recipient}, {wrong}")));
        } else if let Event::OutreachDuplicate { key, recipient, .. } = event {
            self.judged += 1;
            let known = self.key(key);
            if whole && !known.meant {
                let what = format!("key {key} for {recipient} was dropped as a duplicate of nothing");
                out.push(Violation::new(now, [n], what));
            }
        }
    }

    fn delivered(&mut self, entry: &Entry, key: &str, part: u32, recipient: &str, out: &mut Vec<Violation>) {
        let (now, n) = (entry.t_ms, entry.n);
        self.judged += 1;
        let known = self.key(key);
        let before = known.parts.insert(part, (now, n)).filter(|before| known.binds(now, before.0));
        if let Some((at, first)) = before {
            let until = if known.occasion { "for ever" } else { "within 24 h" };
            let what =
                format!("{recipient} got part {part} of key {key} again, after {} ms; expected once {until}", now - at);
            out.push(Violation::new(now, [first, n], what));
        }
    }
}

impl Key {
    /// Whether what happened before forbids it now.
    fn binds(&self, now: u64, before: u64) -> bool {
        !self.in_doubt && (self.occasion || now < before + DUPLICATE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;

    fn check() -> Outreach {
        Outreach::default()
    }

    fn texts(key: &str) -> (String, String, String) {
        (key.into(), "ada".into(), "reminder".into())
    }

    fn meant(key: &str, occasion: Option<&str>) -> Event {
        let (key, recipient, purpose) = texts(key);
        Event::OutreachIntended { key, recipient, purpose, occasion: occasion.map(str::to_owned) }
    }

    fn sent(key: &str) -> Event {
        let (key, recipient, purpose) = texts(key);
        Event::OutreachSent { key, recipient, purpose }
    }

    fn recorded(key: &str) -> Event {
        let (key, recipient, purpose) = texts(key);
        Event::OutreachRecorded { key, recipient, purpose }
    }

    fn received(key: &str, part: u32, status: u16) -> Outside {
        let (key, recipient, purpose) = texts(key);
        let (channel, content) = ("phone".into(), "0123456789abcdef".into());
        Outside::ChannelRequest {
            channel,
            key: Some(format!("{key}-{part}")),
            recipient,
            purpose,
            part,
            status,
            content,
        }
    }

    fn once(occasion: Option<&str>) -> Story {
        Story::new().at(1, meant("k", occasion)).at(2, received("k", 0, 200)).at(3, sent("k")).at(3, recorded("k"))
    }

    #[test]
    fn one_delivery_with_a_refused_try_before_it_is_accepted() {
        Story::new()
            .at(1, meant("k", None))
            .at(1, received("k", 0, 503))
            .at(2, received("k", 0, 204))
            .at(2, received("k", 1, 204))
            .at(3, sent("k"))
            .at(3, recorded("k"))
            .accepted(check());
    }

    #[test]
    fn a_part_that_is_sent_again_is_rejected_and_another_part_is_not() {
        let parts = once(None).at(4, received("k", 1, 200)).at(5, received("k", 2, 200));
        parts.accepted(check());
        parts.at(6, received("k", 1, 200)).rejected(check(), "got part 1 of key k again");
    }

    #[test]
    fn a_second_delivery_is_rejected_for_a_day_or_with_an_occasion_for_ever() {
        let day = 24 * 3_600_000;
        once(None).at(2 + day, received("k", 0, 200)).accepted(check());
        once(None).at(1 + day, received("k", 0, 200)).rejected(check(), "expected once within 24 h");
        once(Some("lunch")).at(9 * day, received("k", 0, 200)).rejected(check(), "expected once for ever");
        once(None).at(4, sent("k")).rejected(check(), "sent a second time");
    }

    #[test]
    fn what_was_shown_in_doubt_may_arrive_again() {
        let (key, recipient, purpose) = texts("k");
        let doubt = Event::OutreachInDoubt { key, recipient, purpose };
        Story::new().at(1, received("k", 0, 200)).at(2, doubt).at(3, received("k", 0, 200)).accepted(check());
    }

    #[test]
    fn a_history_row_without_a_delivery_is_rejected() {
        Story::new().at(1, meant("k", None)).at(2, recorded("k")).rejected(check(), "never sent");
        once(None)
            .at(5, meant("l", None))
            .at(6, sent("l"))
            .at(6, recorded("l"))
            .rejected(check(), "no channel received");
        Story::journal(rules()).at(1, meant("k", None)).at(2, sent("k")).at(2, recorded("k")).accepted(check());
    }

    #[test]
    fn a_message_dropped_as_a_duplicate_of_nothing_is_rejected() {
        let (key, recipient, purpose) = texts("k");
        let dropped = Event::OutreachDuplicate { key, recipient, purpose };
        once(None).at(9, dropped.clone()).accepted(check());
        Story::new().at(9, dropped).rejected(check(), "a duplicate of nothing");
    }
}
