//! The receiver of the status webhook: takes transitions and notices, and counts the tries of each by its key.

use super::inbox::{Message, Paper};
use crate::history::Outside;
use crate::world::http::Request;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a program is told.
#[derive(Default)]
pub struct Report {
    /// By key: how often it came, and whether it was taken.
    seen: RefCell<BTreeMap<String, (u32, bool)>>,
}

impl Paper for Report {
    const FIELDS: &'static [&'static str] = &["kind", "axis"];
    const WORDS: &'static str = "text";

    fn record(&self, name: &str, request: &Request, message: &Message, status: u16) -> Outside {
        let key = request.header("idempotency-key").map(str::to_owned);
        let mut seen = self.seen.borrow_mut();
        // Without a key nothing can be known to be the same again.
        let (tries, taken) = match &key {
            Some(key) => seen.entry(key.clone()).or_default(),
            None => &mut (0, false),
        };
        *tries += 1;
        let repeated = *taken;
        *taken |= (200..300).contains(&status);
        Outside::WebhookRequest {
            server: name.to_owned(),
            key,
            kind: message.text("kind"),
            transition: message.number("transition"),
            axis: message.text("axis"),
            was: message.text("was"),
            to: message.text("to"),
            what: message.text("what"),
            r#try: *tries,
            repeated,
            status,
        }
    }
}
