//! The engine on a machine that comes to harm: whatever it acknowledged is there afterwards.

use squall::event::Event;
use squall_sim::history::{Entry, Outside, Sink, What, World};
use squall_sim::run::Judge;
use squall_sim::run::one::simulate;
use squall_sim::run::verdict::{HistoryFacts, Ruling};
use squall_sim::scenario::Scenario;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Work that is acknowledged, run and remembered, on a healthy network.
const WORK: &str = r#"
title = "work"
duration = "4m"
settle = "10m"
[[provider]]
name = "a"
api = "openai"
latency = "700ms"
[[channel]]
name = "chat"
[[load]]
kind = "chat"
every = "11s"
[[load]]
kind = "defer"
every = "7s"
work_type = "memory_ops"
policy = "drain"
[[load]]
kind = "outreach"
every = "23s"
recipient = "ann"
purpose = "reminder"
[[load]]
kind = "remember"
every = "13s"
"#;

#[derive(Default)]
struct Told(Vec<Entry>);

impl Sink for Told {
    fn entry(&mut self, entry: &Entry, _line: &str) {
        self.0.push(entry.clone());
    }
}

/// The history of [`WORK`] with these faults, judged: every invariant holds.
fn run(faults: &str, seed: u64) -> Vec<Entry> {
    let drill =
        Scenario::read(&format!("{WORK}{faults}"), "machine.toml").expect("a right scenario").resolve(Some(seed));
    let told = Rc::new(RefCell::new(Told::default()));
    let judge = Rc::new(RefCell::new(Judge::new(&drill)));
    simulate(&drill, vec![told.clone(), judge.clone()]).unwrap_or_else(|error| panic!("{faults}: {error}"));
    let judge = Rc::into_inner(judge).expect("the run has let go of its sinks").into_inner();
    let verdict = judge.verdict(&drill, HistoryFacts { events: 0, hash: String::new() }, String::new());
    let broken: Vec<_> = verdict.invariants.iter().filter(|invariant| !invariant.violations.is_empty()).collect();
    assert_eq!(verdict.verdict, Ruling::Held, "{faults}, seed {seed}: {broken:#?}");
    Rc::into_inner(told).expect("the run has let go of its sinks").into_inner().0
}

fn kills(history: &[Entry]) -> usize {
    history.iter().filter(|entry| matches!(entry.what, What::World(World::EngineKilled { .. }))).count()
}

/// Every item that a client was told of was queued once, and came to one end.
fn conserved(history: &[Entry]) -> usize {
    let mut acknowledged = Vec::new();
    let (mut queued, mut finished) = (BTreeMap::<u64, u32>::new(), BTreeMap::<u64, u32>::new());
    for entry in history {
        if let What::Outside(Outside::DeferAnswered { id: Some(id), .. }) = &entry.what {
            acknowledged.push(*id);
        } else if let What::Engine(Event::DeferredQueued { id, merged: false, .. }) = &entry.what {
            *queued.entry(*id).or_default() += 1;
        } else if let What::Engine(Event::DeferredFinished { id, .. }) = &entry.what {
            *finished.entry(*id).or_default() += 1;
        }
    }
    // What was queued when the run ended may still be under way.
    let newest = acknowledged.iter().max().copied().unwrap_or_default();
    for id in &acknowledged {
        assert_eq!(queued.get(id), Some(&1), "item {id} was acknowledged");
        assert!(*id == newest || finished.get(id) == Some(&1), "item {id} came to {:?} ends", finished.get(id));
    }
    acknowledged.len()
}

#[test]
fn nothing_acknowledged_is_lost_wherever_the_engine_is_stopped() {
    for (n, kind) in ["kill", "power_loss"].iter().cycle().take(40).enumerate() {
        // Distances that fall on every part of a commit.
        let step = 90 + 17 * n;
        let fault = format!("[[fault]]\nkind = {kind:?}\npoint = \"write\"\nnth = {step}\nrestart_after = \"3s\"\n");
        let history = run(&fault, n as u64);
        assert_eq!(kills(&history), 1, "{fault}");
        assert!(conserved(&history) > 80, "{fault}");
    }
}

#[test]
fn a_stop_falls_right_after_its_event_and_what_is_durable_is_in_the_history() {
    for point in ["deferred.queued", "deferred.run", "deferred.finished", "outreach.intended", "outreach.sent"] {
        let fault = format!("[[fault]]\nkind = \"kill\"\npoint = {point:?}\nnth = 5\nrestart_after = \"1s\"\n");
        let history = run(&fault, 3);
        conserved(&history);
        let at = history
            .iter()
            .position(|entry| matches!(&entry.what, What::World(World::EngineKilled { point: Some(own), .. }) if own == point))
            .unwrap_or_else(|| panic!("{point}: nothing was killed"));
        let named: Vec<usize> = (0..at).filter(|n| history[*n].what.name() == point).collect();
        assert_eq!(named.len(), 5, "{point}");
        assert_eq!(history[named[4]].t_ms, history[at].t_ms);
        // What the same commit made durable is told with it; nothing else comes between.
        let between = history[named[4] + 1..at].iter().filter(|entry| matches!(entry.what, What::Engine(_)));
        let between: Vec<&str> = between.map(|entry| entry.what.name()).collect();
        let committed_too: &[&str] = if point == "outreach.sent" { &["outreach.recorded"] } else { &[] };
        assert_eq!(between, committed_too, "{point}");
    }
}

#[test]
fn a_routing_event_is_waited_for_until_it_is_durable() {
    let history =
        run("[[fault]]\nkind = \"power_loss\"\npoint = \"call.finished\"\nnth = 7\nrestart_after = \"1s\"\n", 4);
    let killed = history.iter().position(|entry| entry.what.name() == "engine.killed").expect("it was killed");
    let seventh = history.iter().filter(|entry| entry.what.name() == "call.finished").nth(6).expect("there is one");
    let wait = history[killed].t_ms - seventh.t_ms;
    assert!((1..=100).contains(&wait), "{wait} ms: routing commits in groups of 100 ms");
}

#[test]
fn an_engine_that_is_down_until_the_fault_ends_is_up_again_then() {
    let history = run("[[fault]]\nkind = \"kill\"\nat = \"1m\"\nlasts = \"30s\"\n", 1);
    let at = |name: &str| history.iter().find(|entry| entry.what.name() == name).map(|entry| entry.t_ms);
    assert_eq!((at("engine.killed"), at("engine.restarted")), (Some(60_000), Some(90_000)));
    let refused = |entry: &&Entry| matches!(&entry.what, What::Outside(Outside::ChatAnswered { status: 0, .. }));
    assert!(history.iter().filter(refused).all(|entry| (60_000..90_100).contains(&entry.t_ms)));
    assert!(history.iter().any(|entry| refused(&entry)));
}

#[test]
fn a_slow_disk_makes_the_engine_answer_later() {
    let slowest = |faults: &str| {
        let history = run(faults, 1);
        let remembered = |entry: &Entry| {
            let answered = matches!(&entry.what, What::Outside(Outside::RememberAnswered { status: 200, .. }));
            answered.then_some(entry.t_ms % 13_000)
        };
        history.iter().filter_map(remembered).max().expect("something was remembered")
    };
    let healthy = slowest("");
    let slow = slowest("[[fault]]\nkind = \"disk_slow\"\nlatency = \"50ms\"\n");
    assert!(healthy < 100 && (50..1_000).contains(&slow), "{healthy} and {slow} ms");
}

#[test]
fn a_held_lock_is_waited_for_and_a_reader_disturbs_nobody() {
    let history = run("[[fault]]\nkind = \"lock_held\"\nat = \"1m\"\nlasts = \"2s\"\n", 1);
    conserved(&history);
    let held = history.iter().filter(|entry| (60_000..62_000).contains(&entry.t_ms));
    assert!(held.clone().all(|entry| entry.what.name() != "deferred.queued"), "{:#?}", held.collect::<Vec<_>>());
    conserved(&run("[[fault]]\nkind = \"reader_held\"\nat = \"1m\"\nlasts = \"2m\"\n", 1));
}

#[test]
fn a_damaged_row_is_found_when_the_engine_starts_again() {
    let damage = |field: &str, value: &str| {
        let fault =
            format!("[[fault]]\nkind = \"corrupt_row\"\ntable = \"state\"\nfield = {field:?}\nvalue = {value}\n");
        let text = format!("{WORK}{fault}[[fault]]\nkind = \"kill\"\nat = \"1m\"\nrestart_after = \"1s\"\n");
        let drill = Scenario::read(&text, "machine.toml").expect("a right scenario").resolve(None);
        simulate(&drill, Vec::new()).map(drop).map_err(|error| error.to_string())
    };
    let refused = damage("value", "\"{\"").expect_err("the engine cannot start with this");
    assert!(refused.contains("cannot be read back"), "{refused}");
    let absent = damage("valeu", "1").expect_err("there is no such field");
    assert!(absent.starts_with("line 27: state.valeu cannot be given that value"), "{absent}");
}
