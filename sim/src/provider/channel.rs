//! Where outreach is delivered.

use super::inbox::{Message, Paper};
use crate::history::Outside;
use crate::world::http::Request;

/// Words of one person to another.
pub struct Letter;

impl Paper for Letter {
    const FIELDS: &'static [&'static str] = &["recipient", "content"];
    const WORDS: &'static str = "content";

    fn record(&self, name: &str, request: &Request, message: &Message, status: u16) -> Outside {
        let part = message.number("part").and_then(|part| u32::try_from(part).ok()).unwrap_or(0);
        // Each part is a request with a key of its own, made of the message's and the part's number.
        let key = request.header("idempotency-key");
        Outside::ChannelRequest {
            channel: name.to_owned(),
            key: key.map(|key| key.strip_suffix(&format!("-{part}")).unwrap_or(key).to_owned()),
            recipient: message.text("recipient"),
            purpose: message.text("purpose"),
            part,
            status,
            content: blake3::hash(message.text("content").as_bytes()).to_hex()[..16].to_owned(),
        }
    }
}
