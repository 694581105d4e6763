//! One accepted and one rejected history for each form of expectation.

use super::*;
use crate::history::World;
use crate::run::levels::tests::{changed, started};
use serde_json::json;
use squall::base::{AxisLevels, Rules, WallTime};
use squall::event::Event;

fn drill(expects: Vec<Expect>) -> Drill {
    Drill {
        file: "t.toml".into(),
        title: "t".into(),
        about: String::new(),
        source: vec![],
        assumed: vec![],
        starts_at: WallTime(0),
        duration: Span::from_mins(10),
        settle: Span::ZERO,
        seed: 1,
        require: vec![],
        rules: Rules::default(),
        providers: vec![],
        channels: vec![],
        loads: vec![],
        faults: vec![],
        expects,
    }
}

fn expect(what: Expectation) -> Expect {
    Expect { line: 7, text: "t".into(), what }
}

fn judge(what: Expectation, entries: &[Entry]) -> Judged {
    let drill = drill(vec![expect(what)]);
    assert_eq!(problems(&drill), []);
    let (mut levels, mut metrics, mut sometimes) = (Levels::default(), Metrics::new(None), Sometimes::default());
    let mut expecting = Expecting::new(&drill.expects[0], &drill);
    for entry in entries {
        levels.entry(entry);
        metrics.entry(entry, &levels);
        sometimes.entry(entry);
        expecting.entry(entry, &serde_json::to_string(entry).unwrap(), &levels);
    }
    expecting.judge(&levels, &metrics, &sometimes)
}

fn s(seconds: u64) -> Span {
    Span::from_secs(seconds)
}

/// NORMAL, FALLBACK from 60 s, NORMAL again from 300 s.
fn outage() -> Vec<Entry> {
    vec![
        started(0, AxisLevels::NORMAL, Rules::default()),
        changed(60_000, Axis::Cloud, Level::Normal, Level::Fallback),
        changed(300_000, Axis::Cloud, Level::Fallback, Level::Normal),
    ]
}

#[test]
fn a_level_is_there_at_its_time_or_not() {
    let is = |at, level| judge(Expectation::Is { axis: Axis::Cloud, at, level }, &outage());
    assert!(is(s(60), Level::Fallback).held);
    assert_eq!((is(s(59), Level::Fallback).held, is(s(59), Level::Fallback).seen.as_str()), (false, "NORMAL"));
}

#[test]
fn a_level_is_reached_inside_the_window_only() {
    let reaches = |window, level| judge(Expectation::Reaches { axis: Axis::Cloud, within: window, level }, &outage());
    let found = reaches((s(0), s(90)), Level::Fallback);
    assert_eq!((found.held, found.seen.as_str()), (true, "at 60 s"));
    let missed = reaches((s(0), s(60)), Level::Fallback);
    assert_eq!((missed.held, missed.seen.as_str()), (false, "only NORMAL"));
}

#[test]
fn staying_and_never_look_at_the_whole_window() {
    let stays = |during| judge(Expectation::Stays { axis: Axis::Cloud, during, level: Level::Fallback }, &outage());
    assert!(stays((s(60), s(300))).held);
    assert_eq!(stays((s(60), s(301))).seen, "NORMAL at 300 s");
    let never = |during| judge(Expectation::Never { axis: Axis::Cloud, during, level: Level::Fallback }, &outage());
    assert!(never((s(0), s(60))).held);
    assert_eq!(never((s(0), s(61))).seen, "at 60 s");
}

#[test]
fn nothing_holds_of_an_engine_that_never_started() {
    let during = (s(0), s(60));
    let silent = judge(Expectation::Never { axis: Axis::Cloud, during, level: Level::Fallback }, &[]);
    assert!(!silent.held);
    assert!(!judge(Expectation::Stays { axis: Axis::Cloud, during, level: Level::Normal }, &[]).held);
}

#[test]
fn the_sequence_of_levels_must_be_exactly_the_one_that_is_named() {
    let levels = |levels: &[Level]| {
        judge(Expectation::Levels { axis: Axis::Cloud, during: None, levels: levels.to_vec() }, &outage())
    };
    assert!(levels(&[Level::Normal, Level::Fallback, Level::Normal]).held);
    assert_eq!(levels(&[Level::Normal, Level::Fallback]).seen, "NORMAL, FALLBACK, NORMAL");
}

fn filter(event: &str, fields: &[(&str, Value)]) -> EventFilter {
    let fields = fields.iter().map(|(field, value)| ((*field).to_owned(), value.clone())).collect();
    EventFilter { event: event.into(), fields }
}

fn equals(value: impl Into<Value>) -> Bound {
    Bound { equals: Some(value.into()), ..Bound::default() }
}

#[test]
fn events_are_counted_by_name_fields_and_window() {
    let count = |fields: &[(&str, Value)], during, count| {
        judge(Expectation::Event { filter: filter("axis.changed", fields), count, during }, &outage())
    };
    assert!(count(&[], None, equals(2)).held);
    assert!(count(&[("to", json!("FALLBACK"))], None, equals(1)).held);
    assert!(count(&[], Some((s(60), s(300))), equals(1)).held);
    assert_eq!(count(&[("to", json!("OFFLINE"))], None, equals(1)).seen, "0 of 2");
}

#[test]
fn a_field_that_the_event_does_not_have_never_holds() {
    let what = Expectation::Event {
        filter: filter("axis.changed", &[("level", json!("OFFLINE"))]),
        count: equals(0),
        during: None,
    };
    assert_eq!(judge(what, &outage()).seen, "no axis.changed has a field \"level\"");
}

#[test]
fn an_order_is_that_of_first_occurrences() {
    let to = |level: &str| filter("axis.changed", &[("to", json!(level))]);
    assert!(judge(Expectation::Order(vec![to("FALLBACK"), to("NORMAL")]), &outage()).held);
    assert!(!judge(Expectation::Order(vec![to("NORMAL"), to("FALLBACK")]), &outage()).held);
    assert!(!judge(Expectation::Order(vec![to("FALLBACK"), to("OFFLINE")]), &outage()).held);
    // Named twice, it means the second time.
    let any = || filter("axis.changed", &[]);
    assert!(!judge(Expectation::Order(vec![to("FALLBACK"), any()]), &outage()).held);
    assert!(judge(Expectation::Order(vec![any(), any()]), &outage()).held);
    assert!(!judge(Expectation::Order(vec![any(), any(), any()]), &outage()).held);
}

#[test]
fn a_metric_without_a_value_does_not_hold_but_no_request_is_a_number() {
    let metric =
        |metric: &str, bound, during| judge(Expectation::Metric { metric: metric.into(), bound, during }, &outage());
    let ratio = Bound { at_least: Some(0.0), ..Bound::default() };
    assert_eq!(metric("chat.foreground.ok_ratio", ratio, None).seen, "nothing to measure");
    assert!(metric("requests.openai", equals(0), None).held);
    assert!(metric("transitions.cloud", equals(2), None).held);
    assert!(metric("transitions.cloud", equals(1), Some((s(100), s(600)))).held);
}

#[test]
fn the_status_file_is_read_as_it_stood_at_that_time() {
    let file = |t_ms, level: u8| {
        let seen = crate::history::outside::SeenStatus {
            parses: true,
            state: Some(AxisLevels::NORMAL),
            degradation_level: Some(level),
            holds: Default::default(),
            history_len: Some(0),
            newest: None,
            suppressed: None,
            deferred: [("done".to_owned(), 3)].into(),
            not_closed: vec![],
            undelivered_notices: Some(0),
        };
        Entry { n: 0, t_ms, what: What::Outside(Outside::StatusFile { seen: Box::new(seen) }) }
    };
    let status = |path: &str, at, bound| {
        judge(Expectation::Status { path: path.into(), at, bound }, &[file(1_000, 0), file(9_000, 1)])
    };
    assert!(status("degradation_level", s(8), equals(0)).held);
    assert!(status("degradation_level", s(9), equals(1)).held);
    assert!(status("state.cloud", s(9), equals("NORMAL")).held);
    assert!(status("deferred_work_count.done", s(9), equals(3)).held);
    assert!(status("deferred_work_count.dead", s(9), equals(0)).held);
    assert_eq!(status("degradation_level", s(0), equals(0)).seen, "no status file was written");
}

#[test]
fn what_could_hold_by_a_slip_of_the_pen_is_refused_before_the_run() {
    let refused = |what| problems(&drill(vec![expect(what)])).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    let event = Expectation::Event { filter: filter("breaker.opend", &[]), count: equals(0), during: None };
    assert_eq!(refused(event), ["no event is called \"breaker.opend\"; did you mean \"breaker.opened\"?"]);
    let metric = |metric: &str, during| Expectation::Metric { metric: metric.into(), bound: equals(0), during };
    assert_eq!(refused(metric("hold.cloud", None)).len(), 1);
    assert_eq!(refused(metric("recover_s.cloud", Some((s(0), s(1))))).len(), 1);
    assert_eq!(refused(Expectation::Sometimes("hold_startd".into())).len(), 1);
    assert_eq!(refused(Expectation::Is { axis: Axis::Cloud, at: s(601), level: Level::Normal }).len(), 1);
    assert_eq!(refused(Expectation::Outside { what: "chat.messages".into(), at: s(1), bound: equals(0) }).len(), 1);
}

#[test]
fn an_interesting_thing_must_have_happened() {
    let held = Event::HoldStarted { axis: Axis::Cloud, until_ms: 1, restarted: false };
    let entry = Entry { n: 0, t_ms: 0, what: What::Engine(held) };
    let sometimes = Expectation::Sometimes("hold_started".into());
    assert!(judge(sometimes.clone(), &[entry]).held);
    assert!(!judge(sometimes, &[Entry { n: 0, t_ms: 0, what: What::World(World::Healed) }]).held);
}
