//! What a simulated day costs: a chat call every 10 s from a client through an engine to a provider, two exchanges
//! each, with keep-alive connections and 20 ms links.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use squall::base::Span;
use squall_sim::seed::Seed;
use squall_sim::world::http::{Body, Client, Handler, Reply, serve};
use squall_sim::world::{Host, simulate};
use std::hint::black_box;
use std::rc::Rc;

const DAY_S: u64 = 86_400;

fn reply(body: Bytes) -> Reply {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Reply { status: 200, headers, body: Body::Whole(body) }
}

/// Answers after 300 ms.
fn provider(host: &Host) {
    let (listener, world) = (host.listen(443).unwrap(), host.world().clone());
    let handler: Handler = Rc::new(move |_| {
        let world = world.clone();
        Box::pin(async move {
            world.sleep(Span::from_ms(300)).await;
            reply(Bytes::from_static(br#"{"ok":true}"#))
        })
    });
    host.start(serve(listener, handler));
}

/// Hands each request on to the provider.
fn engine(host: &Host, to: &str) {
    let listener = host.listen(7878).unwrap();
    let upstream = Client::new(host, to, 443).with_limit(Span::from_secs(60));
    let handler: Handler = Rc::new(move |request| {
        let upstream = upstream.clone();
        Box::pin(async move { reply(upstream.send("POST", "/v1/chat", &[], request.body).await.unwrap().body) })
    });
    host.start(serve(listener, handler));
}

/// Calls answered in `seconds` with one call every `every` seconds, among `providers` providers.
fn calls(seconds: u64, every: u64, providers: usize) -> u64 {
    simulate(&Seed::new(1), async move |world| {
        let hosts: Vec<Host> =
            (0..providers).map(|n| world.add_host(&format!("provider{n}"), Span::from_ms(20))).collect();
        let own = world.add_host("engine", Span::ZERO);
        let user = world.add_host("user", Span::from_ms(1));
        hosts.iter().for_each(provider);
        engine(&own, "provider0");
        let client = Client::new(&user, "engine", 7878);
        let mut answered = 0;
        for n in 0..seconds / every {
            world.sleep_until_ms(n * every * 1_000).await;
            let body = Bytes::from_static(br#"{"messages":[]}"#);
            answered += u64::from(client.send("POST", "/v1/chat", &[], body).await.unwrap().status == 200);
        }
        answered
    })
}

fn world(c: &mut Criterion) {
    let mut group = c.benchmark_group("world");
    group.sample_size(20);
    for providers in [1, 5, 20] {
        group.throughput(Throughput::Elements(2 * DAY_S / 10));
        group.bench_function(format!("a day, a call every 10 s, {providers} providers (exchanges)"), |b| {
            b.iter(|| assert_eq!(calls(black_box(DAY_S), 10, providers), DAY_S / 10));
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("an idle month", |b| b.iter(|| calls(black_box(30 * DAY_S), 30 * DAY_S, 5)));
    group.finish();
}

criterion_group!(benches, world);
criterion_main!(benches);
