//! What an arrival asks of the engine's HTTP interface.

use super::content::content;
use crate::scenario::{Client, Load, LoadKind};
use serde_json::{Map, Value, json};
use squall::base::CallClass;

/// One request to the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub method: &'static str,
    pub path: &'static str,
    /// `None`: no body.
    pub body: Option<Value>,
}

/// The request of arrival number `arrival`.
pub fn request(load: &Load, arrival: u64) -> Asked {
    let words = |of| Value::from(content(of, load.line, arrival));
    let post = |path, fields: Vec<(&str, Option<Value>)>| {
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Asked { method: "POST", path, body: Some(Value::Object(given.collect::<Map<_, _>>())) }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    match &load.kind {
        LoadKind::Chat { class, chain, stream, tokens, content } => post(
            "/v1/chat",
            vec![
                ("class", Some(Value::from(class_name(*class)))),
                ("chain", text(chain)),
                ("stream", Some(Value::from(*stream))),
                ("max_tokens", tokens.map(Value::from)),
                ("messages", Some(json!([{"role": "user", "content": words(content)}]))),
            ],
        ),
        LoadKind::Remember { content } => post("/v1/remember", vec![("content", Some(words(content)))]),
        LoadKind::Recall { content } => {
            post("/v1/recall", vec![("query", Some(words(content))), ("client", declared(load).map(Value::from))])
        }
        LoadKind::Defer { work_type, priority, policy, ttl, depends_on, key, content } => post(
            "/v1/defer",
            vec![
                ("work_type", Some(Value::from(work_type.as_str()))),
                ("priority", Some(Value::from(*priority))),
                ("policy", Some(Value::from(policy.name()))),
                ("ttl", ttl.map(|ttl| Value::from(ttl.to_string()))),
                ("depends_on", Some(depends_on.iter().map(|axis| axis.name()).collect())),
                ("payload", Some(json!({"content": words(content)}))),
                ("key", text(key)),
            ],
        ),
        LoadKind::Outreach { recipient, purpose, occasion, topic, state, parts, content } => post(
            "/v1/outreach",
            vec![
                ("recipient", Some(Value::from(recipient.as_str()))),
                ("purpose", Some(Value::from(purpose.as_str()))),
                ("occasion", text(occasion)),
                ("topic", text(topic)),
                ("state", state.map(Value::from)),
                ("content", Some(words(content))),
                ("parts", Some(Value::from(*parts))),
            ],
        ),
        LoadKind::Session(_) => unreachable!("sessions ask through their wrapper"),
        LoadKind::Status => Asked { method: "GET", path: "/v1/status", body: None },
    }
}

/// The key that the load's client declares.
pub fn declared(load: &Load) -> Option<&str> {
    match &load.client {
        Client::Key(key) => Some(key),
        Client::One | Client::Each => None,
    }
}

/// Under which name the history knows the client of an arrival.
pub fn identity(load: &Load, arrival: u64) -> String {
    match &load.client {
        Client::One => format!("{}:1", load.line),
        Client::Each => format!("{}:{}", load.line, arrival + 1),
        Client::Key(key) => key.clone(),
    }
}

/// As requests and history write it.
pub fn class_name(class: CallClass) -> &'static str {
    match class {
        CallClass::Foreground => "foreground",
        CallClass::Background => "background",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Arrivals, Content};
    use squall::base::{Axis, Policy, Span};

    fn load(kind: LoadKind, client: Client) -> Load {
        Load { line: 12, kind, arrivals: Arrivals::At(Vec::new()), from: Span::ZERO, to: Span::MAX, client }
    }

    fn body(load: &Load) -> String {
        request(load, 3).body.unwrap().to_string()
    }

    #[test]
    fn only_what_is_given_is_asked_for() {
        let chat = |chain, tokens| LoadKind::Chat {
            class: CallClass::Background,
            chain,
            stream: true,
            tokens,
            content: Content::default(),
        };
        assert_eq!(
            body(&load(chat(None, None), Client::One)),
            r#"{"class":"background","stream":true,"messages":[{"role":"user","content":"load 12 arrival 3"}]}"#
        );
        assert_eq!(
            body(&load(chat(Some("cheap".into()), Some(40)), Client::One)),
            r#"{"class":"background","chain":"cheap","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"load 12 arrival 3"}]}"#
        );
    }

    #[test]
    fn deferred_work_carries_its_policy_and_ttl_as_written_in_drills() {
        let defer = LoadKind::Defer {
            work_type: "reflection".into(),
            priority: 30,
            policy: Policy::Ttl,
            ttl: Some(Span::from_hours(4)),
            depends_on: vec![Axis::Cloud, Axis::Memory],
            key: None,
            content: Content::default(),
        };
        assert_eq!(
            body(&load(defer, Client::One)),
            r#"{"work_type":"reflection","priority":30,"policy":"ttl","ttl":"4h","depends_on":["cloud","memory"],"payload":{"content":"load 12 arrival 3"}}"#
        );
    }

    #[test]
    fn a_declared_client_names_itself_in_its_recalls() {
        let recall = || LoadKind::Recall { content: Content { text: Some("kiln".into()), ..Content::default() } };
        let keyed = load(recall(), Client::Key("desk".into()));
        assert_eq!(body(&keyed), r#"{"query":"kiln","client":"desk"}"#);
        assert_eq!(identity(&keyed, 3), "desk");
        assert_eq!(body(&load(recall(), Client::One)), r#"{"query":"kiln"}"#);
        assert_eq!(identity(&load(recall(), Client::One), 3), "12:1");
        assert_eq!(identity(&load(recall(), Client::Each), 3), "12:4");
    }
}
