//! Sessions under the production wrapper, against a stand-in for the engine that says what it is told to.

use bytes::Bytes;
use serde_json::{Value, json};
use squall::base::{SessionClass, Span, WallTime};
use squall_sim::history::{Entry, Outside, Recorder, Sink, What};
use squall_sim::load::session::{Scene, run};
use squall_sim::load::{ENGINE, ENGINE_PORT, HOST, ONE_WAY};
use squall_sim::provider::{self, Limited, Verdict};
use squall_sim::scenario::{
    Allowance, Arrivals, Client as Who, Dist, Drill, Load, LoadKind, Provider, Scenario, ServerApi, SessionLoad,
};
use squall_sim::seed::Seed;
use squall_sim::world::http::{Body, Handler, Reply, serve};
use squall_sim::world::{Host, World, simulate};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Default)]
struct Events(Vec<(u64, Outside)>);

impl Sink for Events {
    fn entry(&mut self, entry: &Entry, _line: &str) {
        if let What::Outside(event) = &entry.what {
            self.0.push((entry.t_ms, event.clone()));
        }
    }
}

/// What the stand-in was asked: when, path, body.
type Heard = Vec<(u64, String, Value)>;
/// Its answer to a path, by how often that has been asked before.
type Desk = fn(path: &str, before: usize, now_ms: u64) -> (u16, Value);

fn started() -> Value {
    json!({"session": 7, "state": "started", "token": 70, "lease_s": 60})
}

fn waiting(reason: &str) -> Value {
    json!({"session": 7, "state": "waiting", "item": 1, "reason": reason})
}

/// Everything is granted at once.
fn granting(path: &str, _: usize, _: u64) -> (u16, Value) {
    match path {
        "/v1/session/ask" => (200, started()),
        "/v1/session/alive" => (200, json!({"lease_s": 60})),
        _ => (200, json!({})),
    }
}

struct Seen {
    heard: Heard,
    answers: Vec<(u64, Outside)>,
    processes: Vec<(u64, bool, Option<String>)>,
}

impl Seen {
    fn paths(&self) -> Vec<&str> {
        self.heard.iter().map(|(_, path, _)| path.strip_prefix("/v1/session/").unwrap_or(path)).collect()
    }

    fn outcome(&self) -> (&str, i32) {
        let [(_, Outside::SessionAnswered { outcome, status, .. })] = self.answers.as_slice() else {
            panic!("{:?}", self.answers)
        };
        (outcome, *status)
    }

    fn body(&self, path: &str) -> &Value {
        let heard = self.heard.iter().find(|(_, own, _)| own.ends_with(path));
        &heard.unwrap_or_else(|| panic!("{path} was not asked: {:?}", self.paths())).2
    }
}

fn session() -> SessionLoad {
    SessionLoad {
        class: SessionClass::Background,
        key: None,
        runs_for: Dist::Fixed(Span::from_mins(2)),
        exit: 0,
        wait: true,
        retry: false,
        dies_after: None,
        leaves_after: None,
    }
}

struct Play {
    of: SessionLoad,
    desk: Desk,
    /// While the daemon is away, in ms.
    away: Option<(u64, u64)>,
    limit: Option<(u64, Limited)>,
}

fn play(play: Play) -> Seen {
    let events = Rc::new(RefCell::new(Events::default()));
    let heard: Rc<RefCell<Heard>> = Rc::default();
    let seed = Seed::new(1);
    simulate(&seed, async |world: World| {
        let clock = world.clone();
        let recorder = Recorder::new(move || clock.now_ms(), vec![events.clone()]);
        let engine = world.add_host(ENGINE, ONE_WAY);
        let host = world.add_host(HOST, ONE_WAY);
        let limit = play.limit.clone();
        let judge: provider::Judge = Rc::new(move |call| {
            let limited =
                limit.as_ref().filter(|(from, _)| call.now_ms >= *from && call.kind == provider::CallKind::Turn);
            Verdict { limited: limited.map(|(_, limited)| limited.clone()), ..Verdict::default() }
        });
        let claude = Provider {
            line: 0,
            name: "claude-code".into(),
            api: ServerApi::ClaudeCode,
            latency: Dist::Fixed(Span::from_ms(300)),
            models: Vec::new(),
            limit: Allowance::default(),
            dims: None,
            local: false,
            cold_start: None,
        };
        provider::start(&world, &drill(claude), &seed, &judge, &recorder).unwrap();
        let (desk, ears, clock) = (play.desk, heard.clone(), world.clone());
        let handler: Handler = Rc::new(move |request| {
            let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
            let before = ears.borrow().iter().filter(|(_, path, _)| *path == request.path).count();
            let now = clock.now_ms();
            ears.borrow_mut().push((now, request.path.clone(), body));
            let (status, answer) = desk(&request.path, before, now);
            Box::pin(async move {
                Reply { status, headers: Vec::new(), body: Body::Whole(Bytes::from(answer.to_string())) }
            })
        });
        let serving = |engine: &Host| engine.start(serve(engine.listen(ENGINE_PORT).unwrap(), handler.clone()));
        if play.away.is_none_or(|(from, _)| from > 0) {
            serving(&engine);
        }
        let scene = Scene {
            host: host.clone(),
            seed,
            starts_at: WallTime(1_767_225_600_000),
            claude: Some("claude-code".into()),
            recorder,
        };
        let of = play.of.clone();
        let load = Load {
            line: 12,
            kind: LoadKind::Session(of.clone()),
            arrivals: Arrivals::At(vec![Span::ZERO]),
            from: Span::ZERO,
            to: Span::MAX,
            client: Who::Each,
        };
        host.start(async move {
            run(&scene, &load, &of, 0).await;
            std::future::pending::<()>().await;
        });
        if let Some((from, to)) = play.away {
            world.sleep_until_ms(from).await;
            engine.kill();
            world.sleep_until_ms(to).await;
            serving(&engine);
        }
        world.sleep_until_ms(1_800_000).await;
    });
    let events = events.take().0;
    let processes = events.iter().filter_map(|(at, event)| {
        let Outside::SessionProcess { running, limit, .. } = event else { return None };
        Some((*at, *running, limit.clone()))
    });
    Seen {
        heard: heard.take(),
        processes: processes.collect(),
        answers: events.into_iter().filter(|(_, event)| matches!(event, Outside::SessionAnswered { .. })).collect(),
    }
}

fn drill(claude: Provider) -> Drill {
    let text = "title = \"t\"\nduration = \"1m\"\n";
    let mut drill = Scenario::read(text, "t.toml").unwrap().resolve(None);
    drill.providers = vec![claude];
    drill
}

fn granted(of: SessionLoad) -> Play {
    Play { of, desk: granting, away: None, limit: None }
}

fn limited(message: &str, resets_ms: Option<u64>) -> Option<(u64, Limited)> {
    let limited =
        Limited { window: "five_hour".into(), resets_ms, message: message.into(), zone: "Asia/Shanghai".into() };
    Some((60_000, limited))
}

#[test]
fn a_session_is_alive_three_times_a_lease_and_ends_with_its_exit_code() {
    let seen = play(granted(session()));
    assert_eq!(seen.paths(), ["ask", "alive", "alive", "alive", "alive", "alive", "alive", "end"]);
    assert_eq!(seen.outcome(), ("done", 0));
    assert_eq!(seen.body("ask"), &json!({"class": "background", "key": "12:1", "label": "12:1"}));
    assert_eq!(seen.body("end"), &json!({"outcome": "done", "progress": "12:1", "session": 7, "token": 70}));
    assert_eq!(seen.processes.len(), 2);
    let failed = play(granted(SessionLoad { exit: 3, ..session() }));
    assert_eq!((failed.outcome(), &failed.body("end")["outcome"]), (("failed", 3), &json!("failed")));
}

#[test]
fn a_limit_is_told_as_soon_as_it_is_read_in_every_wording() {
    for (message, window, resets) in [
        ("1.0.31", "unknown", true),
        ("1.0.105", "five_hour", true),
        ("2.1", "unknown", true),
        ("2.1-session", "five_hour", true),
        ("stream-json", "five_hour", true),
        ("stream-json-ms", "five_hour", true),
        ("silent-cap", "five_hour", true),
        ("no-reset", "unknown", false),
        ("daily", "daily", false),
    ] {
        let seen = play(Play { limit: limited(message, Some(7_200_000)), ..granted(session()) });
        assert_eq!(seen.outcome().0, "limited", "{message}");
        let (at, _, told) = seen.heard.iter().find(|(_, path, _)| path.ends_with("limit")).expect(message);
        assert_eq!(told["window"], window, "{message}");
        match told.get("resets_in_ms").and_then(Value::as_u64) {
            Some(left) => assert!((7_200_000..7_200_100).contains(&(at + left)) && resets, "{message}: {left} at {at}"),
            None => assert!(!resets, "{message}"),
        }
        assert_eq!(seen.processes[1].2.as_deref(), Some("five_hour"), "{message}");
        assert_eq!(seen.body("end")["outcome"], "limited", "{message}");
    }
}

#[test]
fn a_limit_that_kills_without_a_word_is_a_failure() {
    let seen = play(Play { limit: limited("silent", Some(7_200_000)), ..granted(session()) });
    assert_eq!(seen.outcome(), ("failed", 137));
    assert!(!seen.paths().contains(&"limit"));
}

#[test]
fn after_a_limit_the_work_is_run_again_only_if_asked_to() {
    let again = SessionLoad { retry: true, ..session() };
    fn second_waits(path: &str, before: usize, now: u64) -> (u16, Value) {
        match (path, before) {
            ("/v1/session/ask", 1) => (202, waiting("a limit is in force")),
            _ => granting(path, before, now),
        }
    }
    fn then(path: &str, before: usize, now: u64) -> (u16, Value) {
        if path == "/v1/session/wait" { (200, started()) } else { second_waits(path, before, now) }
    }
    let seen = play(Play { desk: then, limit: limited("2.1", None), ..granted(again) });
    let starts = seen.processes.iter().filter(|(_, running, _)| *running).count();
    assert!(starts >= 3, "{starts}: the limit never ends here");
    let once = play(Play { limit: limited("2.1", None), ..granted(session()) });
    assert_eq!(once.processes.len(), 2);
}

#[test]
fn who_does_not_want_to_wait_leaves_the_work_in_the_queue() {
    fn full(_: &str, _: usize, _: u64) -> (u16, Value) {
        (202, waiting("no slot is free"))
    }
    let seen = play(Play { of: SessionLoad { wait: false, ..session() }, desk: full, away: None, limit: None });
    assert_eq!((seen.outcome(), seen.paths()), (("deferred", 75), vec!["ask"]));
    assert!(seen.processes.is_empty());
}

#[test]
fn a_poll_that_is_answered_at_once_is_asked_again_a_second_later() {
    fn third(path: &str, before: usize, now: u64) -> (u16, Value) {
        match path {
            "/v1/session/ask" => (202, waiting("no slot is free")),
            "/v1/session/wait" if before < 2 => (202, waiting("no slot is free")),
            "/v1/session/wait" => (200, started()),
            _ => granting(path, before, now),
        }
    }
    let seen = play(Play { desk: third, ..granted(session()) });
    let polls: Vec<u64> = seen.heard.iter().filter(|(_, path, _)| path.ends_with("wait")).map(|(at, ..)| *at).collect();
    assert_eq!(polls.len(), 3);
    assert!(polls.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{polls:?}");
    assert_eq!(seen.outcome().0, "done");
}

#[test]
fn a_daemon_that_restarts_loses_no_report() {
    // Away over the limit and the end, back within the lease.
    let away = Play { away: Some((55_000, 85_000)), limit: limited("2.1", Some(7_200_000)), ..granted(session()) };
    let seen = play(away);
    assert_eq!(seen.paths().last(), Some(&"end"));
    let (at, _, told) = seen.heard.iter().find(|(_, path, _)| path.ends_with("limit")).expect("it is told late");
    let left = told["resets_in_ms"].as_u64().unwrap();
    assert!(*at >= 85_000 && (7_200_000..7_200_100).contains(&(at + left)), "{left} at {at}: what is left of it");
    assert_eq!(seen.outcome().0, "limited");
}

#[test]
fn a_waiter_keeps_its_place_over_a_restart_and_asks_again_of_a_daemon_that_knows_nothing() {
    fn forgetful(path: &str, before: usize, now: u64) -> (u16, Value) {
        match path {
            "/v1/session/ask" if before == 0 => (202, waiting("no slot is free")),
            "/v1/session/wait" if now < 60_000 => (202, waiting("no slot is free")),
            "/v1/session/wait" => (404, json!({"error": "unknown"})),
            _ => granting(path, before, now),
        }
    }
    let seen = play(Play { desk: forgetful, away: Some((20_000, 90_000)), ..granted(session()) });
    let asks: Vec<&Value> =
        seen.heard.iter().filter(|(_, path, _)| path.ends_with("ask")).map(|(.., body)| body).collect();
    assert_eq!(asks.len(), 2);
    assert_eq!(asks[0], asks[1]);
    assert_eq!(seen.outcome().0, "done");
}

#[test]
fn a_lost_slot_is_told_and_the_command_runs_on() {
    fn reclaimed(path: &str, before: usize, now: u64) -> (u16, Value) {
        if path == "/v1/session/alive" && before == 1 {
            (409, json!({"error": "reclaimed"}))
        } else {
            granting(path, before, now)
        }
    }
    let seen = play(Play { desk: reclaimed, ..granted(session()) });
    assert_eq!(seen.paths(), ["ask", "alive", "alive"]);
    assert_eq!(seen.outcome(), ("lost", 0));
    assert!(seen.processes[1].0 > 100_000);
}

#[test]
fn without_a_daemon_a_person_works_on_and_the_rest_fails() {
    let away = Some((0, 1_790_000));
    let seen = play(Play { away, ..granted(session()) });
    assert_eq!((seen.outcome(), seen.processes.len()), (("unreachable", 69), 0));
    let seen = play(Play { away, ..granted(SessionLoad { class: SessionClass::Foreground, ..session() }) });
    assert_eq!((seen.outcome(), seen.processes.len()), (("done", 0), 2));
}

#[test]
fn a_session_that_dies_says_nothing() {
    let dies = SessionLoad { dies_after: Some(Dist::Fixed(Span::from_secs(30))), ..session() };
    let seen = play(granted(dies));
    assert_eq!(seen.paths(), ["ask", "alive"]);
    assert!(seen.answers.is_empty());
    let (from, to) = (seen.processes[0].0, seen.processes[1].0);
    assert_eq!((seen.processes.len(), to - from), (2, 30_000));
}

#[test]
fn a_waiter_that_leaves_says_nothing_and_one_that_runs_stays() {
    fn full(path: &str, before: usize, now: u64) -> (u16, Value) {
        if path == "/v1/session/alive" { granting(path, before, now) } else { (202, waiting("no slot is free")) }
    }
    let leaves = || SessionLoad { leaves_after: Some(Dist::Fixed(Span::from_secs(30))), ..session() };
    let seen = play(Play { desk: full, ..granted(leaves()) });
    assert!(seen.answers.is_empty() && seen.processes.is_empty());
    assert!(seen.heard.iter().all(|(at, path, _)| *at <= 30_000 && !path.ends_with("cancel")), "{:?}", seen.paths());
    assert_eq!(play(granted(leaves())).outcome(), ("done", 0));
}

#[test]
fn somebody_else_runs_this_work() {
    fn taken(_: &str, _: usize, _: u64) -> (u16, Value) {
        (409, json!({"error": "it runs"}))
    }
    let seen = play(Play { desk: taken, ..granted(session()) });
    assert_eq!((seen.outcome(), seen.processes.len()), (("elsewhere", 75), 0));
}

#[test]
fn a_daemon_that_does_not_understand_is_not_asked_again() {
    fn other(_: &str, _: usize, _: u64) -> (u16, Value) {
        (404, json!({"error": "no such route"}))
    }
    let seen = play(Play { desk: other, ..granted(session()) });
    assert_eq!((seen.outcome(), seen.paths().len()), (("refused", 70), 1));
}
