//! Servers and faults together, over the simulated network, as a client sees them.

use super::board::tests::{drill, errors, fault};
use super::{Board, Engine, start};
use crate::adapter::SimDisk;
use crate::history::{Entry, Outside, Recorder, Sink, What, World as WorldEvent};
use crate::provider;
use crate::scenario::{Allowance, Dist, Drill, Errors, Fault, FaultKind, Pick, RetryAfter, ServerApi, Slow, Target};
use crate::seed::Seed;
use crate::world::http::{Client, ClientError, Response};
use crate::world::{World, simulate};
use bytes::Bytes;
use squall::base::Span;
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Default)]
struct Lines(Vec<(Entry, String)>);

impl Sink for Lines {
    fn entry(&mut self, entry: &Entry, line: &str) {
        self.0.push((entry.clone(), line.to_owned()));
    }
}

/// What a test's client works with.
struct Bench {
    world: World,
    client: Client,
}

const CHAT: &str = r#"{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

impl Bench {
    async fn post(&self, body: &str) -> Result<Response, ClientError> {
        let headers = [("x-client-request-id", "7"), ("user-agent", "test (probe)")];
        self.client.send("POST", "/v1/chat/completions", &headers, Bytes::from(body.to_owned())).await
    }

    async fn status(&self) -> u16 {
        self.post(CHAT).await.expect("an answer").status
    }
}

/// A machine for an engine, without one.
fn nobody(world: &World, recorder: &Recorder) -> Engine {
    let host = world.add_host("engine", Span::ZERO);
    let disk = SimDisk::new(&host, recorder.clone());
    Engine::new(&host, &disk, recorder, &Seed::new(1), Rc::default(), || {})
}

/// Runs `test` as a client of the provider "openai" in the drill's world; the history it made.
fn run(drill: &Drill, test: impl AsyncFnOnce(Bench)) -> Vec<(Entry, String)> {
    let lines = Rc::new(RefCell::new(Lines::default()));
    let seed = Seed::new(1);
    simulate(&seed, async |world: World| {
        let recorder = Recorder::new(
            {
                let world = world.clone();
                move || world.now_ms()
            },
            vec![lines.clone()],
        );
        let host = world.add_host("tester", Span::from_ms(1));
        let board = Board::new(drill, &seed).expect("all faults can be injected");
        provider::start(&world, drill, &seed, &board.judge(), &recorder).expect("all servers are simulated");
        start(&world, &board, &nobody(&world, &recorder), drill.duration, &recorder);
        let client = Client::new(&host, "openai", 80).with_limit(Span::from_mins(20));
        test(Bench { world: world.clone(), client }).await;
    });
    lines.take().0
}

fn openai() -> Target {
    Target::Provider("openai".into())
}

/// A fault on openai from 60 s to 120 s.
fn in_second_minute(kind: FaultKind) -> Fault {
    Fault { at: Span::from_mins(1), lasts: Span::from_mins(1), ..fault(31, kind, openai(), Pick::All) }
}

fn requests(history: &[(Entry, String)]) -> Vec<(u64, bool)> {
    let request = |(entry, _): &(Entry, String)| match &entry.what {
        What::Outside(Outside::ProviderRequest { early, .. }) => Some((entry.t_ms, *early)),
        What::Outside(_) | What::World(_) | What::Engine(_) => None,
    };
    history.iter().filter_map(request).collect()
}

fn answers(history: &[(Entry, String)]) -> Vec<(u16, String, Option<u64>)> {
    let answer = |(entry, _): &(Entry, String)| match &entry.what {
        What::Outside(Outside::ProviderAnswered { status, what, wait_ms, .. }) => {
            Some((*status, what.clone(), *wait_ms))
        }
        What::Outside(_) | What::World(_) | What::Engine(_) => None,
    };
    history.iter().filter_map(answer).collect()
}

#[test]
fn a_healthy_server_answers_after_its_latency_and_both_sides_are_recorded() {
    let history = run(&drill(Vec::new()), async |bench| {
        let response = bench.post(CHAT).await.unwrap();
        assert_eq!(response.status, 200);
        // A handshake, a round trip of 22 ms, and 100 ms of work.
        assert_eq!(bench.world.now_ms(), 22 + 22 + 100);
        assert_eq!(bench.status().await, 200);
        assert_eq!(bench.world.now_ms(), 144 + 122, "the connection is kept");
    });
    let first: Vec<&str> = history.iter().take(2).map(|(_, line)| line.as_str()).collect();
    let expected = [
        r#"{"n":0,"t_ms":33,"from":"outside","event":"provider.request","entry":"openai","probe":true,"early":false,"request":7,"stream":false}"#,
        r#"{"n":1,"t_ms":133,"from":"outside","event":"provider.answered","entry":"openai","request":7,"status":200,"what":"ok","wait_ms":null}"#,
    ];
    assert_eq!(first, expected);
}

#[test]
fn a_stream_takes_twenty_milliseconds_a_token() {
    run(&drill(Vec::new()), async |bench| {
        let response = bench.post(STREAM).await.unwrap();
        assert_eq!(bench.world.now_ms(), 144 + 5 * 20);
        let body = String::from_utf8(response.body.to_vec()).unwrap();
        assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
    });
}

#[test]
fn a_fault_holds_from_its_start_to_its_end_and_is_recorded() {
    let history = run(&drill(vec![in_second_minute(errors(&[502]))]), async |bench| {
        for (at_s, status) in [(0, 200), (59, 200), (60, 502), (119, 502), (120, 200)] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            assert_eq!(bench.status().await, status, "at {at_s} s");
        }
        bench.world.sleep_until_ms(301_000).await;
    });
    let world = |(entry, _): &(Entry, String)| match &entry.what {
        What::World(event) => Some((entry.t_ms, event.clone())),
        What::Outside(_) | What::Engine(_) => None,
    };
    let (kind, target) = ("fault".to_owned(), vec!["target".to_owned()]);
    let expected = [
        (60_000, WorldEvent::FaultStarted { line: 31, kind: kind.clone(), target: target.clone() }),
        (120_000, WorldEvent::FaultEnded { line: 31, kind, target }),
        (300_000, WorldEvent::Healed),
    ];
    assert_eq!(history.iter().filter_map(world).collect::<Vec<_>>(), expected);
}

#[test]
fn who_comes_back_within_a_stated_wait_is_early() {
    let storm = FaultKind::Storm { retry_after: Some(RetryAfter::Seconds(Span::from_secs(20))), capacity: None };
    let history = run(&drill(vec![in_second_minute(storm)]), async |bench| {
        // Each answer states 20 s more: at 65.1 s, 75.1 s, 94.1 s and 115.1 s.
        for at_s in [65, 75, 94, 115, 121, 136] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            bench.status().await;
        }
    });
    let early: Vec<bool> = requests(&history).into_iter().map(|(_, early)| early).collect();
    // At 121 s the storm is over, but not the wait that it stated last.
    assert_eq!(early, [false, true, true, false, true, false]);
    assert_eq!(answers(&history)[0], (429, "storm".into(), Some(20_000)));
}

#[test]
fn what_hangs_hangs_on_after_the_healing() {
    let history = run(&drill(vec![in_second_minute(FaultKind::Hang)]), async |bench| {
        bench.world.sleep_until_ms(60_000).await;
        let limit = Span::from_mins(20);
        assert_eq!(bench.post(CHAT).await, Err(ClientError::TimedOut { limit, status: None }));
        assert_eq!(bench.world.now_ms(), 60_000 + limit.ms());
        assert_eq!(bench.status().await, 200, "others are served");
    });
    assert_eq!(answers(&history)[0], (0, "hang".into(), None));
}

#[test]
fn a_cut_stream_breaks_off_after_what_was_sent() {
    let cut = |after_bytes, before_first_token| FaultKind::Cut { after_bytes, before_first_token };
    for (kind, len) in [(cut(Some(10), false), Some(10)), (cut(None, true), None)] {
        run(&drill(vec![in_second_minute(kind)]), async |bench| {
            bench.world.sleep_until_ms(60_000).await;
            let Err(ClientError::Cut { status: 200, body, .. }) = bench.post(STREAM).await else { panic!("cut") };
            match len {
                Some(len) => assert_eq!(body.len(), len),
                None => assert!(body.ends_with(b"\n\n") && !body.is_empty(), "the role, and no token"),
            }
        });
    }
}

#[test]
fn a_link_fault_reaches_the_client_and_goes() {
    run(&drill(vec![in_second_minute(FaultKind::Refuse)]), async |bench| {
        assert_eq!(bench.status().await, 200);
        bench.world.sleep_until_ms(60_001).await;
        let refused = ClientError::Connect { kind: std::io::ErrorKind::ConnectionRefused };
        let answer = bench.client.fresh().send("GET", "/v1/models", &[], Bytes::new()).await;
        assert_eq!(answer, Err(refused));
        bench.world.sleep_until_ms(120_000).await;
        assert_eq!(bench.client.fresh().send("GET", "/v1/models", &[], Bytes::new()).await.unwrap().status, 200);
    });
}

#[test]
fn a_slow_server_keeps_its_own_pace_again_afterwards() {
    let slow = FaultKind::Slow(Slow::Factor(10.0));
    run(&drill(vec![in_second_minute(slow)]), async |bench| {
        bench.status().await;
        bench.world.sleep_until_ms(60_000).await;
        bench.status().await;
        assert_eq!(bench.world.now_ms(), 60_000 + 22 + 1_000);
    });
}

#[test]
fn more_requests_at_once_than_allowed_are_refused_without_a_hint() {
    let mut drill = drill(Vec::new());
    drill.providers[0].limit = Allowance { concurrent: Some(2), ..Allowance::default() };
    for (api, path, status) in [
        (ServerApi::Openai, "/v1/chat/completions", 429),
        (ServerApi::Anthropic, "/v1/messages", 529),
        (ServerApi::Mistral, "/v1/chat/completions", 429),
        (ServerApi::Ollama, "/api/chat", 503),
    ] {
        drill.providers[0].api = api;
        run(&drill, async |bench| {
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let client = bench.client.fresh();
                    let headers = [("anthropic-version", "2023-06-01")];
                    bench
                        .world
                        .spawn(async move { client.send("POST", path, &headers, Bytes::from(CHAT)).await.unwrap() })
                })
                .collect();
            let mut statuses = Vec::new();
            for answer in waiting {
                let answer = answer.await.unwrap();
                assert_eq!(answer.header("retry-after"), None);
                statuses.push(answer.status);
            }
            assert_eq!(statuses, [200, 200, status]);
        });
    }
}

#[test]
fn mistral_counts_down_and_states_no_wait_unless_the_drill_does() {
    let mut drill = drill(vec![in_second_minute(FaultKind::Storm {
        retry_after: Some(RetryAfter::Seconds(Span::from_secs(30))),
        capacity: None,
    })]);
    drill.providers[0].api = ServerApi::Mistral;
    drill.providers[0].limit = Allowance { requests_per_minute: Some(2), ..Allowance::default() };
    let history = run(&drill, async |bench| {
        for (at_s, status, left) in [(0, 200, "1"), (1, 200, "0"), (2, 429, "0"), (3, 429, "0")] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            let answer = bench.post(CHAT).await.unwrap();
            assert_eq!(answer.status, status, "at {at_s} s");
            assert_eq!(answer.header("x-ratelimit-remaining-req-10-second"), Some(left), "at {at_s} s");
            assert_eq!(answer.header("retry-after"), None);
        }
        for at_s in [61, 70, 95] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            assert_eq!(bench.post(CHAT).await.unwrap().header("retry-after"), Some("30"));
        }
    });
    let early: Vec<bool> = requests(&history).into_iter().map(|(_, early)| early).collect();
    assert_eq!(early, [false, false, false, false, false, true, true]);
}

#[test]
fn ollama_loads_its_model_for_the_first_request_and_again_after_a_pause_or_a_death() {
    let dead = Errors { status: Vec::new(), error: Some("runner_dead".into()), retry_after: None, body: None };
    let mut drill = drill(vec![in_second_minute(FaultKind::Errors(dead))]);
    drill.providers[0].api = ServerApi::Ollama;
    drill.providers[0].cold_start = Some(Dist::Fixed(Span::from_secs(8)));
    drill.duration = Span::from_mins(15);
    let history = run(&drill, async |bench| {
        let ask = async |at_s: u64, path: &str| {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            let body = r#"{"input":["a"],"stream":false,"messages":[{"role":"user","content":"hi"}]}"#;
            let answer = bench.client.send("POST", path, &[], Bytes::from(body)).await.unwrap();
            (answer.status, (bench.world.now_ms() - at_s * 1_000).div_euclid(1_000))
        };
        assert_eq!(ask(0, "/api/chat").await, (200, 8));
        assert_eq!(ask(20, "/api/embed").await, (200, 0), "it is there");
        assert_eq!(ask(60, "/api/embed").await, (400, 0), "a 400 that is nobody's request's fault");
        assert_eq!(ask(61, "/api/chat").await, (500, 0));
        assert_eq!(ask(130, "/api/embed").await, (200, 8), "loaded again");
        assert_eq!(ask(400, "/api/embed").await, (200, 0));
        assert_eq!(ask(701, "/api/embed").await, (200, 8), "nobody asked for five minutes");
    });
    assert!(answers(&history).iter().all(|(_, _, wait_ms)| wait_ms.is_none()));
}

#[test]
fn a_limit_of_a_fault_ends_with_it() {
    let limit = FaultKind::Limit(Allowance { requests_per_minute: Some(1), ..Allowance::default() });
    let history = run(&drill(vec![in_second_minute(limit)]), async |bench| {
        for (at_s, status) in [(60, 200), (61, 429), (119, 429), (120, 200), (121, 200)] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            assert_eq!(bench.status().await, status, "at {at_s} s");
        }
    });
    // One a minute: the second at 61.011 s lacks what comes until 120.033 s.
    assert_eq!(answers(&history)[1].2, Some(59_022));
}

#[test]
fn a_request_needs_a_key_where_there_is_one_and_a_model_that_exists() {
    let mut drill = drill(Vec::new());
    drill.rules.providers[0].key_env = "OPENAI_API_KEY".into();
    drill.providers[0].models = vec!["gpt-4".into()];
    let history = run(&drill, async |bench| {
        let ask = async |model: &str, key: &[(&str, &str)]| {
            let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]}}"#);
            bench.client.send("POST", "/v1/chat/completions", key, Bytes::from(body)).await.unwrap().status
        };
        let key = [("authorization", "Bearer sk-sim")];
        assert_eq!(ask("gpt-4", &[]).await, 401);
        assert_eq!(ask("gpt-5", &key).await, 404);
        assert_eq!(ask("gpt-4", &key).await, 200);
    });
    let entries = history.iter().filter_map(|(entry, _)| match &entry.what {
        What::Outside(Outside::ProviderRequest { entry, .. }) => Some(entry.as_str()),
        What::Outside(_) | What::World(_) | What::Engine(_) => None,
    });
    assert_eq!(entries.collect::<Vec<_>>(), ["openai/gpt-4", "openai/gpt-5", "openai/gpt-4"]);
}

#[test]
fn a_channel_takes_messages_and_may_be_down() {
    let down = Fault { targets: vec![Target::Channel("chat".into())], ..in_second_minute(errors(&[503])) };
    let history = run(&drill(vec![down]), async |bench| {
        let channel = Client::new(&bench.world.host("tester").unwrap(), "chat", 80);
        let message = r#"{"recipient":"user","purpose":"news","part":2,"content":"hello"}"#;
        for (at_s, status) in [(0, 200), (60, 503)] {
            bench.world.sleep_until_ms(at_s * 1_000).await;
            let headers = [("idempotency-key", "k1")];
            let answer = channel.send("POST", "/", &headers, Bytes::from(message)).await.unwrap();
            assert_eq!(answer.status, status);
        }
    });
    let hash = blake3::hash(b"hello").to_hex();
    let expected = |status| Outside::ChannelRequest {
        channel: "chat".into(),
        key: Some("k1".into()),
        recipient: "user".into(),
        purpose: "news".into(),
        part: 2,
        status,
        content: hash[..16].to_owned(),
    };
    let seen = history.iter().filter_map(|(entry, _)| match &entry.what {
        What::Outside(event @ Outside::ChannelRequest { .. }) => Some(event.clone()),
        What::Outside(_) | What::World(_) | What::Engine(_) => None,
    });
    assert_eq!(seen.collect::<Vec<_>>(), [expected(200), expected(503)]);
}

#[test]
fn the_same_seed_makes_the_same_history() {
    let ms = Span::from_ms;
    let flap = FaultKind::Flap {
        down: Dist::Uniform(ms(2_000), ms(9_000)),
        up: Dist::Lognormal(ms(3_000), ms(20_000)),
        jitter: 0.3,
        of: Box::new(errors(&[500, 502, 503])),
    };
    let faults = vec![
        fault(5, flap, Target::Llm, Pick::Share(0.7)),
        fault(6, FaultKind::Loss { share: 0.2 }, Target::Internet, Pick::All),
    ];
    let mut drill = drill(faults);
    drill.providers[0].latency = Dist::Lognormal(ms(300), ms(4_000));
    let once = || {
        run(&drill, async |bench| {
            for at_s in 0..300 {
                bench.world.sleep_until_ms(at_s * 1_000).await;
                let _ = bench.post(STREAM).await;
            }
        })
    };
    let (first, second) = (once(), once());
    assert!(first.len() > 500, "{}", first.len());
    assert_eq!(first, second);
}
