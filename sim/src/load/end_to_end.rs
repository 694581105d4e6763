//! Loads against a stand-in for the engine, over the simulated network.

use super::*;
use crate::history::outside::AdvisoryForm;
use crate::history::{Entry, Sink, What};
use crate::scenario::{Arrivals, Content, Dist};
use crate::world::http::{Body, Handler, Reply, serve};
use crate::world::simulate;
use squall::base::CallClass;
use std::cell::RefCell;

#[derive(Default)]
struct Events(Vec<(u64, Outside)>);

impl Sink for Events {
    fn entry(&mut self, entry: &Entry, _line: &str) {
        if let What::Outside(event) = &entry.what {
            self.0.push((entry.t_ms, event.clone()));
        }
    }
}

const STATUS: &str = r#"{"state":{"cloud":"FALLBACK","memory":"NORMAL","embedding":"NORMAL","cc":"NORMAL"}}"#;

/// Runs the loads for `minutes` against an engine that answers `body` to everything, `late` after it was asked.
fn run(loads: Vec<Load>, minutes: u64, late: Span, status: u16, body: &'static str) -> (Vec<(u64, Outside)>, Progress) {
    let events = Rc::new(RefCell::new(Events::default()));
    let progress = simulate(&Seed::new(1), async |world: World| {
        let recorder = Recorder::new(
            {
                let world = world.clone();
                move || world.now_ms()
            },
            vec![events.clone()],
        );
        let engine = world.add_host(ENGINE, Span::from_ms(1));
        let handler: Handler = {
            let world = world.clone();
            Rc::new(move |_request| {
                let world = world.clone();
                Box::pin(async move {
                    world.sleep(late).await;
                    Reply { status, headers: Vec::new(), body: Body::Whole(Bytes::from(body)) }
                })
            })
        };
        let file: StatusFile = Rc::new(|| Some(STATUS.as_bytes().to_vec()));
        let progress = start(&world, &loads, &Seed::new(1), file, None, WallTime(0), &recorder);
        engine.start(serve(engine.listen(ENGINE_PORT).unwrap(), handler));
        world.sleep(Span::from_mins(minutes)).await;
        progress
    });
    (events.take().0, progress)
}

fn load(kind: LoadKind, arrivals: Arrivals, client: Who) -> Load {
    Load { line: 12, kind, arrivals, from: Span::ZERO, to: Span::from_mins(1), client }
}

fn every_10s() -> Arrivals {
    Arrivals::Every(Dist::Fixed(Span::from_secs(10)))
}

fn chat() -> LoadKind {
    LoadKind::Chat {
        class: CallClass::Foreground,
        chain: None,
        stream: false,
        tokens: None,
        content: Content::default(),
    }
}

#[test]
fn a_slow_answer_does_not_delay_the_next_arrival() {
    let ok = r#"{"outcome":"ok","call":1,"entry":"openai","text":"hi","attempts":1}"#;
    let (events, progress) = run(vec![load(chat(), every_10s(), Who::One)], 5, Span::from_secs(90), 200, ok);
    let asked = events.iter().map(|(t_ms, event)| {
        let Outside::ChatAnswered { asked_ms, outcome, client, status: 200, .. } = event else { panic!("{event:?}") };
        assert_eq!((outcome.as_str(), client.as_str()), ("ok", "12:1"));
        assert_eq!(*t_ms, asked_ms + 90_000 + 8, "two round trips of 4 ms");
        *asked_ms
    });
    assert_eq!(asked.collect::<Vec<_>>(), [0, 10_000, 20_000, 30_000, 40_000, 50_000]);
    assert_eq!((progress.arrived(), progress.answered()), (6, 6));
}

#[test]
fn a_client_gives_up_after_ten_minutes() {
    let once = Arrivals::At(vec![Span::ZERO]);
    let (events, _) = run(vec![load(chat(), once, Who::One)], 20, Span::from_hours(1), 200, "{}");
    let [(600_000, Outside::ChatAnswered { status: 0, outcome, .. })] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(outcome, "failed");
}

#[test]
fn each_arrival_may_be_a_client_of_its_own() {
    let body = r#"{"hits":[{"memory":1,"content":"x","score":0.9}],"advisory":{"degraded":true,"severity":"fault","runbook":"Notify the user: x","advisory_scope":"process"}}"#;
    let recall = LoadKind::Recall { content: Content::default() };
    let (events, _) = run(vec![load(recall, every_10s(), Who::Each)], 2, Span::ZERO, 200, body);
    let clients = events.iter().map(|(_, event)| {
        let Outside::RecallAnswered { client, hits: 1, advisory: Some(advisory), key: None, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(advisory.form, AdvisoryForm::Full);
        client.clone()
    });
    assert_eq!(clients.collect::<Vec<_>>(), ["12:1", "12:2", "12:3", "12:4", "12:5", "12:6"]);
}

#[test]
fn file_and_server_must_name_the_same_levels() {
    let normal = r#"{"state":{"cloud":"NORMAL","memory":"NORMAL","embedding":"NORMAL","cc":"NORMAL"}}"#;
    for (body, expected) in [(STATUS, true), (normal, false), ("{}", false)] {
        let (events, _) = run(vec![load(LoadKind::Status, every_10s(), Who::One)], 2, Span::ZERO, 200, body);
        assert_eq!(events.len(), 6);
        for (_, event) in events {
            assert_eq!(event, Outside::StatusRead { load: 12, client: "12:1".into(), status: 200, agree: expected });
        }
    }
}
