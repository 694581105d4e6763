//! What a decision costs: whom to ask, a change of level, an attempt past a breaker, what a recall has to admit.
//!
//! Targets: routing among 20 providers below 1 µs; 2.7 million changes of level a second (20 axes' worth of the 135
//! thousand a second that a large deployment makes); an advisory below 100 ns while all is well and 1 µs in a fault.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use squall::advisory::{Audience, Health, RecallReport, Situation, Told, health::Reason, text};
use squall::axis::{AxisState, History};
use squall::base::rules::{AdvisoryRules, FlapRules};
use squall::base::{Axis, CallClass, EntryName, Level, MonoTime, Outcome, Rules, Span, WallTime};
use squall::breaker::{Ask, Evidence, Gate, GateRules};
use squall::chain::{EntryView, Walk};
use squall::event::{AdvisoryForm, AdvisoryScope, DenseResult, Severity};
use std::collections::BTreeMap;
use std::hint::black_box;

fn fail(gate: &mut Gate, rules: &GateRules, times: u64) {
    for attempt in 0..times {
        let permit = gate.admit(Ask { attempt, probe: false, stream: true }, MonoTime(0), rules).expect("it is closed");
        gate.settle(permit, Outcome::ProviderFault, Evidence::NONE, MonoTime(0), rules);
    }
}

/// A fresh call's first step, from the gates on: the first 19 of 20 entries are open, so that all are looked at.
fn routing(c: &mut Criterion) {
    let rules = Rules::default();
    let gate_rules = GateRules::new(&rules, false);
    let names: Vec<EntryName> = (0..20).map(|n| EntryName::new(&format!("provider{n}/model"))).collect();
    let mut gates = BTreeMap::new();
    for (n, name) in names.iter().enumerate() {
        let mut gate = Gate::new();
        if n < 19 {
            fail(&mut gate, &gate_rules, 3);
        }
        gates.insert(name.clone(), gate);
    }
    let now = MonoTime(1_000);
    let mut views: Vec<EntryView> = Vec::new();
    c.bench_function("routing: the first step among 20 providers, 19 open", |b| {
        b.iter(|| {
            views.clear();
            views.extend(names.iter().map(|name| match gates[name].refusal(black_box(now), &gate_rules) {
                None => EntryView { admits: true, earliest: None, probe_in_slot: false },
                Some(refusal) => EntryView { admits: false, earliest: refusal.earliest, probe_in_slot: false },
            }));
            let mut walk = Walk::new(CallClass::Foreground, names.clone(), now, &rules.call, &rules.retry);
            walk.next(now, &views)
        });
    });
}

/// An axis that goes down and up every quarter of an hour: never a hold, always a change.
fn transition(c: &mut Criterion) {
    let rules = FlapRules::default();
    let mut group = c.benchmark_group("transition");
    group.throughput(Throughput::Elements(1));
    let mut now = 0;
    let mut step = move || {
        now += 900_000;
        let level = if now % 1_800_000 == 0 { Level::Normal } else { Level::Fallback };
        (MonoTime(now), level)
    };
    let mut axis = AxisState::new(Level::Normal, MonoTime(0));
    group.bench_function("applied", |b| {
        b.iter(|| {
            let (now, level) = step();
            axis.report(Axis::Cloud, black_box(level), now, &rules)
        });
    });
    let mut history = History::default();
    group.bench_function("applied, and kept in the history", |b| {
        b.iter(|| {
            let (now, level) = step();
            for effect in axis.report(Axis::Cloud, black_box(level), now, &rules) {
                history.record(Axis::Cloud, &effect, now, WallTime(0), "provider7/model is out");
            }
        });
    });
    group.finish();
}

fn breaker(c: &mut Criterion) {
    let rules = GateRules::new(&Rules::default(), false);
    let mut group = c.benchmark_group("breaker");
    // A success every 50 ms: the window of five minutes is as full as it gets, as at a busy provider.
    let (mut gate, mut attempt) = (Gate::new(), 0);
    group.bench_function("admit and settle a success, busy", |b| {
        b.iter(|| {
            attempt += 1;
            let now = MonoTime(attempt * 50);
            let ask = Ask { attempt, probe: false, stream: true };
            let permit = gate.admit(black_box(ask), now, &rules).expect("it is closed");
            gate.settle(permit, Outcome::Success, Evidence::NONE, now, &rules)
        });
    });
    let mut shut = Gate::new();
    fail(&mut shut, &rules, 3);
    group.bench_function("refuse", |b| {
        b.iter(|| shut.admit(black_box(Ask { attempt: 9, probe: false, stream: true }), MonoTime(1), &rules).is_err());
    });
    group.bench_function("open by three failures", |b| {
        b.iter_batched(Gate::new, |mut gate| fail(&mut gate, &rules, 3), BatchSize::SmallInput);
    });
    group.finish();
}

fn advisory(c: &mut Criterion) {
    let rules = AdvisoryRules::default();
    let mut group = c.benchmark_group("advisory");
    let audience = Audience { shared: true, key: None };
    let (mut told, mut at) = (Told::default(), 0);
    let mut recall = |health: &mut Health, told: &mut Told, dense: DenseResult, evidence: Option<String>| {
        at += 1_000;
        let started = MonoTime(at);
        let report = RecallReport { started, dense, reason: Reason::Embedding, evidence };
        let changed = health.report(report, started + Span::from_ms(1), &rules);
        let pending = health.reason().map(|_| told.pending(Severity::Fault, &audience));
        if let Some(pending) = &pending {
            told.delivered(pending, &rules);
        }
        (changed, pending)
    };
    let (mut healthy, _) = Health::new(true);
    group.bench_function("decided, all is well", |b| {
        b.iter(|| recall(&mut healthy, &mut told, black_box(DenseResult::Ok), None));
    });
    let (mut faulty, _) = Health::new(true);
    group.bench_function("decided, in a fault", |b| {
        b.iter(|| {
            let evidence = Some("ollama/nomic: connection refused".to_owned());
            recall(&mut faulty, &mut told, black_box(DenseResult::Failed), evidence)
        });
    });
    let situation = Situation {
        reason: Reason::Embedding,
        evidence: Some("ollama/nomic: connection refused".to_owned()),
        endpoint: "http://127.0.0.1:11434".to_owned(),
        model: "nomic-embed-text".to_owned(),
    };
    group.bench_function("its full text", |b| {
        let (severity, form, scope) = (Severity::Fault, AdvisoryForm::Full, AdvisoryScope::Process);
        b.iter(|| text::advisory(severity, form, scope, black_box(&situation)));
    });
    group.finish();
}

criterion_group!(benches, routing, transition, breaker, advisory);
criterion_main!(benches);
