//! Tells people what the engine has to say: over the first way that works, one notice at a time, blocking nobody.
//!
//! Each channel in turn (with the key and history of outreach, so that nothing is said twice), the webhook, the status
//! file, stderr. What a channel may have taken (no answer after it was written) is not said on a channel again, but
//! goes on to the other ways: better twice than not at all. A notice leaves the machine when it was told; one that a
//! crash finds under way is sent again under its old key.
//! **Source:** engine.md 8 (notices), 9 (without a disk, notices go without an intent row).

use super::api::{EngineError, Message};
use super::core::Core;
use super::outreach::{self, Delivery};
use super::{Engine, webhook};
use crate::base::rules::ChainUse;
use crate::base::{Axis, EntryName, Level, MonoTime};
use crate::event::{Event, OpenWhy};
use crate::notice::{Notice, Undelivered, UndeliveredKind};
use serde_json::json;
use tokio::task::spawn_local;

const RECIPIENT: &str = "user";
const PURPOSE: &str = "notice";

impl Core {
    pub(super) fn tell_of_level(&mut self, axis: Axis, to: Level, cause: &str, now: MonoTime) {
        let baseline = self.baseline.get(axis);
        self.notices.level_changed(axis, to, baseline, cause, now, self.rules.notify.coalesce);
        self.dirty.people = true;
        self.follows.people = true;
    }

    pub(super) fn tell_of_trip(&mut self, entry: &EntryName, why: OpenWhy, now: MonoTime) {
        let axis = match self.entries.get(entry).map(|entry| entry.use_) {
            Some(ChainUse::Embedding) => Axis::Embedding,
            Some(ChainUse::Chat) | None => Axis::Cloud,
        };
        let level = self.levels().get(axis);
        self.notices.breaker_opened(entry, axis, level, why, now, self.rules.notify.coalesce);
        self.dirty.people = true;
    }

    pub(super) fn tell_of_closing(&mut self, entry: &EntryName) {
        self.notices.breaker_closed(entry);
        self.dirty.people = true;
    }

    pub(super) fn notices_due(&mut self, now: MonoTime) {
        if self.notices.timer(now) {
            self.dirty.people = true;
            self.follows.people = true;
        }
    }

    pub(super) fn people_restored(&mut self, now: MonoTime) {
        self.notices.restore(now, self.rules.notify.coalesce);
        // Without a receiver nobody waits for what happens now: one that is named later hears what happens then.
        let posted = match self.rules.notify.webhook_url.is_empty() {
            true => None,
            false => Some(self.posted.unwrap_or(self.history.applied_count())),
        };
        self.dirty.people |= posted != self.posted;
        self.posted = posted;
    }
}

/// How far a notice got.
enum Told {
    By(String),
    Nowhere { last: &'static str },
}

impl Engine {
    pub(super) fn spawn_people(&self) {
        spawn_local(self.clone().tell_notices());
        if !self.0.rules.notify.webhook_url.is_empty() {
            spawn_local(self.clone().post_transitions());
        }
    }

    async fn tell_notices(self) {
        loop {
            let next = self.0.core.borrow().notices.next().cloned();
            let Some(notice) = next else {
                self.0.wake.notices.notified().await;
                continue;
            };
            let told = self.tell(&notice).await;
            let Notice { occasion, about, also, .. } = notice;
            let (axis, what, entry) = (about.axis, about.what, about.entry);
            self.0.decide(|core, _| {
                core.notices.done();
                core.dirty.people = true;
                core.events.push(match told {
                    Told::By(way) => Event::NoticeSent { axis, what, entry, way, occasion, also },
                    Told::Nowhere { last } => {
                        Event::NoticeUndelivered { axis, what, entry, way: last.to_owned(), occasion, also }
                    }
                });
            });
            self.0.flush();
        }
    }

    async fn tell(&self, notice: &Notice) -> Told {
        let mut failures = Vec::new();
        for channel in &self.0.rules.channels {
            match self.tell_on_channel(notice, &channel.name, &channel.url).await {
                Ok(()) => return Told::By(format!("channel:{}", channel.name)),
                Err(why) => failures.push(format!("{}: {why}", channel.name)),
            }
        }
        if !self.0.rules.notify.webhook_url.is_empty() {
            let body = json!({
                "schema": webhook::SCHEMA, "kind": "notice", "occasion": notice.occasion,
                "axis": notice.about.axis, "what": notice.about.what, "also": notice.also, "text": notice.text,
            });
            match self.post(&format!("notice {}", notice.occasion), &body).await.failure {
                None => return Told::By("webhook".to_owned()),
                Some(why) => failures.push(format!("webhook: {why}")),
            }
        }
        let why = match failures.is_empty() {
            true => "neither a channel nor a webhook is configured".to_owned(),
            false => failures.join("; "),
        };
        self.list_undelivered(UndeliveredKind::Notice, notice.occasion.clone(), notice.text.clone(), why);
        if self.0.write_status("notice") {
            return Told::By("status_file".to_owned());
        }
        match self.0.ports.notify.line(&format!("squalld: {}", notice.text.replace('\n', " "))) {
            true => Told::By("stderr".to_owned()),
            false => Told::Nowhere { last: "stderr" },
        }
    }

    /// **Errors:** why it did not reach anybody there, or may not have.
    async fn tell_on_channel(&self, notice: &Notice, name: &str, url: &str) -> Result<(), String> {
        let message = Message {
            recipient: RECIPIENT.to_owned(),
            purpose: PURPOSE.to_owned(),
            occasion: Some(notice.occasion.clone()),
            topic: None,
            state: None,
            content: notice.text.clone(),
            parts: 1,
            channel: Some(name.to_owned()),
        };
        let key = outreach::key(&message);
        let delivery = match self.deliver(&message, &key).await {
            // A full disk is just what people should hear of.
            Err(EngineError::NotStored(_)) => self.send_part(url, &message, &key, 0).await,
            Err(error) => return Err(error.to_string()),
            Ok(delivery) => delivery,
        };
        match delivery {
            Delivery::Sent | Delivery::Duplicate | Delivery::Outdated => Ok(()),
            Delivery::InDoubt => Err("nobody can say whether it arrived".to_owned()),
            Delivery::NotSent { why } => Err(why),
        }
    }

    /// For the status file, which whoever calls writes next.
    pub(super) fn list_undelivered(&self, kind: UndeliveredKind, key: String, what: String, why: String) {
        self.0.decide(|core, at| {
            let wall = core.wall;
            core.notices.list(Undelivered { kind, key, at, wall, what, why });
            core.dirty.people = true;
        });
    }
}
