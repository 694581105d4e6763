//! A day of drill: how many simulated seconds and exchanges per second of the machine.
//!
//! Five providers, one chat call every 10 s, an outage of the first provider of two hours.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use squall_sim::run::{Job, Keep};
use squall_sim::scenario::Scenario;
use std::fmt::Write;

fn day() -> Job {
    let mut text = String::from("title = \"A day\"\nduration = \"23h\"\nsettle = \"1h\"\n");
    for n in 1..=5 {
        let api = if n % 2 == 0 { "openai" } else { "anthropic" };
        write!(text, "[[provider]]\nname = \"p{n}\"\napi = \"{api}\"\nlatency = \"lognormal(900ms, 6s)\"\n").unwrap();
    }
    text.push_str(
        "[[chain]]\nname = \"default\"\nuse = \"chat\"\nentries = [\"p1\", \"p2\", \"p3\", \"p4\", \"p5\"]\n",
    );
    text.push_str("[[load]]\nkind = \"chat\"\nevery = \"10s\"\n");
    text.push_str("[[fault]]\nkind = \"errors\"\ntarget = \"p1\"\nat = \"6h\"\nlasts = \"2h\"\nstatus = 503\n");
    let scenario = Scenario::read(&text, "day.toml").expect("the bench's scenario is right");
    Job { drill: scenario.resolve(None), text, settings: vec![], first: true, twice: false }
}

fn benches(criterion: &mut Criterion) {
    let job = day();
    let done = job.run(&Keep::Nothing).expect("the day runs");
    let mut group = criterion.benchmark_group("day");
    group.sample_size(10).throughput(Throughput::Elements(done.timing.exchanges));
    group.bench_function("24 h, 5 providers, a call every 10 s", |bencher| {
        bencher.iter(|| job.run(&Keep::Nothing).expect("the day runs"));
    });
    group.finish();
}

criterion_group!(day_of_drill, benches);
criterion_main!(day_of_drill);
