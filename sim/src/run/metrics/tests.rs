use super::super::levels::tests::{changed, started};
use super::*;
use squall::base::{AxisLevels, EntryName, Level, Rules};

fn run(window: Option<(u64, u64)>, entries: &[Entry]) -> BTreeMap<String, Value> {
    let (mut levels, mut metrics) = (Levels::default(), Metrics::new(window));
    for entry in entries {
        levels.entry(entry);
        metrics.entry(entry, &levels);
    }
    metrics.values(&levels)
}

fn chat(asked_ms: u64, t_ms: u64, outcome: &str) -> Entry {
    let event = Outside::ChatAnswered {
        load: 0,
        client: "c".into(),
        class: "foreground".into(),
        status: 200,
        outcome: outcome.into(),
        asked_ms,
        retry_after_ms: None,
    };
    Entry { n: 0, t_ms, what: What::Outside(event) }
}

fn fault(t_ms: u64, starts: bool) -> Entry {
    let (line, kind, target) = (1, "errors".into(), vec![]);
    let event =
        if starts { World::FaultStarted { line, kind, target } } else { World::FaultEnded { line, kind, target } };
    Entry { n: 0, t_ms, what: What::World(event) }
}

#[test]
fn a_call_is_ok_or_deferred_or_failed_and_a_window_takes_it_when_it_was_asked() {
    let entries = [chat(0, 900, "ok"), chat(1_000, 9_000, "ok"), chat(2_000, 2_100, "refused")];
    let all = run(None, &entries);
    assert_eq!(all["chat.foreground.count"], Value::Count(3));
    assert_eq!(all["chat.foreground.failed"], Value::Count(1));
    assert_eq!(all["chat.foreground.ok_ratio"], Value::real(2.0 / 3.0));
    assert_eq!(all["chat.foreground.p50_ms"], Value::Count(900));
    assert_eq!(all["chat.foreground.p99_ms"], Value::Count(8_000));
    let part = run(Some((1_000, 2_000)), &entries);
    assert_eq!(part["chat.foreground.count"], Value::Count(1));
    assert!(!part.contains_key("episodes.cloud"), "an episode may begin before the window");
}

#[test]
fn nothing_to_measure_is_no_value_and_not_a_perfect_one() {
    let none = run(None, &[]);
    assert!(!none.contains_key("chat.foreground.ok_ratio") && !none.contains_key("recover_s.cloud"));
}

#[test]
fn recovery_counts_from_the_end_of_the_fault_inside_the_episode() {
    let values = run(
        None,
        &[
            started(0, AxisLevels::NORMAL, Rules::default()),
            fault(1_000, true),
            changed(4_000, Axis::Cloud, Level::Normal, Level::Offline),
            fault(60_000, false),
            changed(85_000, Axis::Cloud, Level::Offline, Level::Normal),
        ],
    );
    assert_eq!(values["detect_s.cloud"], Value::real(3.0));
    assert_eq!(values["recover_s.cloud"], Value::real(25.0));
    assert_eq!(values["episodes.cloud"], Value::Count(1));
}

#[test]
fn the_same_message_twice_is_a_duplicate_unless_a_day_lies_between_and_it_has_no_occasion() {
    let sent = |t_ms| {
        let event = Outside::ChannelRequest {
            channel: "chat".into(),
            key: Some("k".into()),
            recipient: "ann".into(),
            purpose: "news".into(),
            part: 0,
            status: 200,
            content: "c".into(),
        };
        Entry { n: 0, t_ms, what: What::Outside(event) }
    };
    let day = 86_400_000;
    assert_eq!(run(None, &[sent(0), sent(day - 1)])["duplicates_sent"], Value::Count(1));
    assert_eq!(run(None, &[sent(0), sent(day)])["duplicates_sent"], Value::Count(0));
    let intended = Event::OutreachIntended {
        key: "k".into(),
        recipient: "ann".into(),
        purpose: "news".into(),
        occasion: Some("monday".into()),
    };
    let intended = Entry { n: 0, t_ms: 0, what: What::Engine(intended) };
    assert_eq!(run(None, &[intended, sent(0), sent(day)])["duplicates_sent"], Value::Count(1));
}

#[test]
fn a_herd_is_the_busiest_second_over_the_mean_one_after_the_recovery() {
    let asked = |t_ms| {
        let entry = EntryName::new("a");
        let event = Outside::ProviderRequest { entry, probe: false, early: false, request: None, stream: false };
        Entry { n: 0, t_ms, what: What::Outside(event) }
    };
    let values = run(
        None,
        &[
            changed(1, Axis::Cloud, Level::Normal, Level::Offline),
            changed(10_000, Axis::Cloud, Level::Offline, Level::Normal),
            asked(10_100),
            asked(10_200),
            asked(30_000),
            asked(70_000),
        ],
    );
    assert_eq!(values["herd_index"], Value::real(2.0 / (3.0 / 60.0)));
}

#[test]
fn sessions_are_counted_in_the_window_and_slots_from_before_it_are_held_in_it() {
    use squall::base::{SessionClass::Background, SessionOutcome};
    let asked = |t_ms, session| (t_ms, Event::SessionAsked { session, class: Background });
    let started =
        |t_ms, session| (t_ms, Event::SessionStarted { session, class: Background, trial: false, item: None });
    let ended = |t_ms, session| (t_ms, Event::SessionEnded { session, outcome: SessionOutcome::Done });
    let waits =
        |t_ms, session| (t_ms, Event::SessionDeferred { session, class: Background, item: 1, reason: "full".into() });
    let events = [
        asked(1, 1),
        started(1, 1),
        asked(2, 2),
        waits(2, 2),
        waits(3, 2),
        ended(20, 1),
        started(20, 2),
        asked(30, 3),
        started(30, 3),
    ];
    let entries: Vec<Entry> =
        events.into_iter().map(|(t_ms, event)| Entry { n: 0, t_ms, what: What::Engine(event) }).collect();
    let counts = |window| {
        let values = run(window, &entries);
        ["asked", "started", "deferred", "active_max"].map(|what| values[&format!("sessions.{what}")])
    };
    assert_eq!(counts(None), [3, 3, 1, 2].map(Value::Count));
    assert_eq!(counts(Some((10, 30))), [0, 1, 0, 1].map(Value::Count));
    assert!(!run(None, &[]).contains_key("sessions.asked"));
}

#[test]
fn a_misspelled_metric_is_not_known() {
    assert_eq!(known("chat.foreground.okratio"), Known::No);
    assert_eq!(known("requests.openai/gpt-4"), Known::Windowed);
    assert_eq!(known("requests."), Known::No);
    assert_eq!(known("recover_s.cloud"), Known::WholeRun);
}
