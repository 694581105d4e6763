//! The session interface, asked over HTTP as a wrapper asks it, in simulated time: order, waiters, limits, restarts.

use bytes::Bytes;
use serde_json::{Value, json};
use squall::base::{Rules, Span, WallTime};
use squall::event::Event;
use squall::port::Ports;
use squall_sim::adapter::{SimClock, SimDisk, SimNet, SimNotify, SimRng};
use squall_sim::history::{Entry, Recorder, Sink, What};
use squall_sim::load::{ENGINE, ENGINE_PORT, ONE_WAY};
use squall_sim::seed::Seed;
use squall_sim::world::http::Client;
use squall_sim::world::{Host, World, simulate};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The engine's events, as lines without their numbers.
#[derive(Default)]
struct Seen(Vec<(u64, Event)>);

impl Sink for Seen {
    fn entry(&mut self, entry: &Entry, _: &str) {
        if let What::Engine(event) = &entry.what {
            self.0.push((entry.t_ms, event.clone()));
        }
    }
}

/// A daemon in a world of its own, and a client beside it.
struct Desk {
    world: World,
    engine: Host,
    disk: SimDisk,
    recorder: Recorder,
    rules: Rules,
    client: Client,
    seen: Rc<RefCell<Seen>>,
}

fn desk(rules: &str, test: impl AsyncFnOnce(Desk)) {
    let mut own = Rules::default();
    for line in rules.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once('=').expect("key = value");
        squall::config::set(&mut own, key.trim(), value.trim()).unwrap();
    }
    simulate(&Seed::new(1), async |world| {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let clock = world.clone();
        let recorder = Recorder::new(move || clock.now_ms(), vec![seen.clone()]);
        let engine = world.add_host(ENGINE, ONE_WAY);
        let person = world.add_host("person", ONE_WAY);
        let disk = SimDisk::new(&engine, recorder.clone());
        let client = Client::new(&person, ENGINE, ENGINE_PORT);
        let desk = Desk { world: world.clone(), engine, disk, recorder, rules: own, client, seen };
        desk.start();
        desk.world.sleep(Span::from_ms(100)).await; // Until it listens.
        test(desk).await;
    });
}

/// A session that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    session: u64,
    token: u64,
}

impl Desk {
    fn start(&self) {
        let ports = Ports {
            clock: Rc::new(SimClock::new(self.world.clone(), WallTime(1_750_000_000_000))),
            net: Rc::new(SimNet::new(self.engine.clone())),
            disk: Rc::new(self.disk.for_process()),
            rng: Rc::new(RefCell::new(SimRng::new(Seed::new(1).stream("engine")))),
            notify: Rc::new(SimNotify::new(self.recorder.clone(), self.engine.clone(), Rc::default())),
        };
        let rules = self.rules.clone();
        self.engine.start(async move {
            let listen = format!("0.0.0.0:{ENGINE_PORT}");
            squall::daemon::run(ports, rules, BTreeMap::new(), &listen, std::future::pending()).await.unwrap();
        });
    }

    async fn pass(&self, s: u64) {
        self.world.sleep(Span::from_secs(s)).await;
    }

    async fn say(&self, verb: &str, body: Value) -> (u16, Value) {
        self.call("POST", &format!("/v1/session/{verb}"), body).await
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = Bytes::from(body.to_string());
        let answer = self.client.fresh().send(method, path, &[], body).await.expect("the daemon answers");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    async fn ask(&self, class: &str, key: &str) -> (u16, Value) {
        self.say("ask", json!({ "class": class, "key": key })).await
    }

    async fn started(&self, class: &str, key: &str) -> Own {
        let (status, answer) = self.ask(class, key).await;
        assert_eq!((status, &answer["state"]), (200, &json!("started")), "{answer}");
        own(&answer)
    }

    async fn waits(&self, class: &str, key: &str) -> u64 {
        let (status, answer) = self.ask(class, key).await;
        assert_eq!((status, &answer["state"]), (202, &json!("waiting")), "{answer}");
        answer["session"].as_u64().unwrap()
    }

    /// A poll that goes on beside the test.
    fn poll(&self, session: u64) -> impl Future<Output = (u16, Value)> + use<> {
        let client = self.client.fresh();
        let poll = self.world.spawn(async move {
            let body = Bytes::from(json!({ "session": session }).to_string());
            let answer = client.send("POST", "/v1/session/wait", &[], body).await.expect("the daemon answers");
            (answer.status, serde_json::from_slice(&answer.body).unwrap())
        });
        async move { poll.await.unwrap() }
    }

    async fn end(&self, own: Own, outcome: &str) -> Value {
        let (status, answer) =
            self.say("end", json!({ "session": own.session, "token": own.token, "outcome": outcome })).await;
        assert_eq!(status, 200, "{answer}");
        answer["state"].clone()
    }

    async fn limit(&self, own: Own, window: &str, resets_in_ms: Option<u64>) {
        let mut body = json!({ "session": own.session, "token": own.token, "window": window });
        if let Some(ms) = resets_in_ms {
            body["resets_in_ms"] = json!(ms);
        }
        assert_eq!(self.say("limit", body).await.0, 200);
    }

    async fn alive(&self, own: Own) -> u16 {
        self.say("alive", json!({ "session": own.session, "token": own.token })).await.0
    }

    async fn sessions(&self) -> Value {
        self.call("GET", "/v1/status", Value::Null).await.1["sessions"].clone()
    }

    async fn cc(&self) -> String {
        let (_, status) = self.call("GET", "/v1/status", Value::Null).await;
        format!("{} {}", status["state"]["cc"].as_str().unwrap(), status["measured"]["cc"].as_str().unwrap())
    }

    async fn pending(&self) -> u64 {
        let (_, status) = self.call("GET", "/v1/status", Value::Null).await;
        status["deferred_work_count"]["pending"].as_u64().unwrap()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event is about sessions")]
    /// Names of the engine's events about sessions and their items, and what else of them matters, since the n-th.
    fn events(&self, from: usize) -> Vec<String> {
        let told = |event: &Event| match event {
            Event::SessionAsked { session, .. } => Some(format!("asked {session}")),
            Event::SessionDeferred { session, .. } => Some(format!("deferred {session}")),
            Event::SessionWaiter { session, present } => Some(format!("waiter {session} {present}")),
            Event::SessionStarted { session, trial, item, .. } => {
                Some(format!("started {session} trial={trial} item={}", item.is_some()))
            }
            Event::SessionAnswered { session } => Some(format!("answered {session}")),
            Event::SessionEnded { session, outcome } => Some(format!("ended {session} {outcome:?}")),
            Event::SessionLimited { session, window, resets_in_ms, .. } => {
                Some(format!("limited {session} {window} {resets_in_ms:?}"))
            }
            Event::DeferredQueued { work_type, priority, .. } => Some(format!("queued {work_type} {priority}")),
            Event::DeferredRun { .. } => Some("run".to_owned()),
            Event::DeferredReleased { attempts, not_before_ms, .. } => {
                Some(format!("released attempts={attempts} {not_before_ms:?}"))
            }
            Event::DeferredFinished { status, .. } => Some(format!("finished {}", status.name())),
            _ => None,
        };
        self.seen.borrow().0.iter().filter_map(|(_, event)| told(event)).skip(from).collect()
    }
}

fn own(answer: &Value) -> Own {
    Own { session: answer["session"].as_u64().unwrap(), token: answer["token"].as_u64().unwrap() }
}

#[test]
fn a_session_starts_at_once_is_answered_when_it_ends_and_gives_its_slot_back() {
    desk("", async |desk| {
        let own = desk.started("background", "a").await;
        assert_eq!(desk.sessions().await["by_class"]["background"], 1);
        assert_eq!(desk.ask("background", "a").await.0, 409, "its key runs");
        assert_eq!(desk.say("wait", json!({ "session": own.session })).await.0, 409);
        assert_eq!(desk.alive(own).await, 200);
        assert_eq!(desk.end(own, "done").await, "over");
        assert_eq!(desk.alive(own).await, 409);
        assert_eq!(desk.say("wait", json!({ "session": own.session })).await.0, 409);
        assert_eq!(desk.say("wait", json!({ "session": 99 })).await.0, 404);
        assert_eq!(desk.events(0), ["asked 1", "started 1 trial=false item=false", "answered 1", "ended 1 Done"]);
        let sessions = desk.sessions().await;
        assert_eq!(
            (&sessions["active"], &sessions["completed"], &sessions["starts_in_hour"]),
            (&json!(0), &json!(1), &json!(1))
        );
    });
}

#[test]
fn those_who_wait_start_in_queue_order_and_one_without_a_waiter_blocks_nobody() {
    desk("", async |desk| {
        let mut running = Vec::new();
        for n in 0..3 {
            running.push(desk.started("background", &format!("run {n}")).await);
        }
        let gone = desk.waits("reflection", "gone").await;
        let late = desk.waits("background", "late").await;
        let first = desk.waits("reflection", "first").await;
        let (late_poll, first_poll) = (desk.poll(late), desk.poll(first));
        desk.pass(1).await;
        desk.end(running.remove(0), "done").await;
        let (status, answer) = first_poll.await;
        assert_eq!((status, own(&answer).session), (200, first), "the better class goes first, although it came later");
        desk.end(running.remove(0), "done").await;
        assert_eq!(own(&late_poll.await.1).session, late, "one without a waiter blocks nobody");
        assert_eq!(desk.sessions().await["waiting"], 1);
        desk.end(running.remove(0), "done").await;
        let (status, answer) = desk.ask("reflection", "gone").await;
        assert_eq!((status, own(&answer).session), (200, gone), "asking again is the same ask, and now it may start");
        assert!(desk.events(0).contains(&"started 4 trial=false item=true".to_owned()));
        assert_eq!(desk.end(own(&answer), "failed").await, "over");
        assert_eq!(desk.events(0).last().unwrap(), "finished done");
    });
}

#[test]
fn a_poll_is_answered_after_twenty_seconds_and_its_waiter_is_gone_five_later() {
    desk("sessions.active_max = 1\nsessions.foreground_reserve = 0", async |desk| {
        let running = desk.started("foreground", "run").await;
        let session = desk.waits("background", "wait").await;
        let before = desk.world.now_ms();
        let (status, answer) = desk.poll(session).await;
        assert_eq!((status, answer["reason"].as_str().unwrap()), (202, "every slot is taken"));
        assert!((20_000..20_010).contains(&(desk.world.now_ms() - before)));
        // Between two polls it keeps its turn: nobody who comes later takes the slot.
        desk.end(running, "done").await;
        assert_eq!(desk.ask("background", "later").await.0, 202);
        assert_eq!(desk.poll(session).await.0, 200);
        desk.pass(6).await;
        let seen = desk.seen.borrow();
        let waiters: Vec<_> = seen.0.iter().filter(|(_, event)| event.name() == "session.waiter").collect();
        assert_eq!(waiters.len(), 1, "it came once: {waiters:?}");
    });
}

#[test]
fn a_waiter_that_goes_away_makes_room_after_five_seconds() {
    desk("sessions.active_max = 1\nsessions.foreground_reserve = 0", async |desk| {
        let running = desk.started("background", "run").await;
        let first = desk.waits("background", "first").await;
        let second = desk.waits("background", "second").await;
        let poll = desk.poll(second);
        // It hangs up after a second, in the middle of its poll.
        let impatient = desk.client.fresh().with_limit(Span::from_secs(1));
        let body = Bytes::from(json!({ "session": first }).to_string());
        impatient.send("POST", "/v1/session/wait", &[], body).await.unwrap_err();
        desk.end(running, "done").await;
        let ended = desk.world.now_ms();
        let (status, answer) = poll.await;
        assert_eq!((status, own(&answer).session), (200, second));
        assert!((4_900..5_010).contains(&(desk.world.now_ms() - ended)), "{}", desk.world.now_ms() - ended);
        assert!(desk.events(0).contains(&format!("waiter {first} false")));
        assert_eq!(desk.pending().await, 1, "it keeps its place");
    });
}

#[test]
fn a_limit_defers_all_but_foreground_and_is_over_after_three_answers() {
    desk("", async |desk| {
        let own_one = desk.started("background", "a").await;
        desk.limit(own_one, "five_hour", Some(600_000)).await;
        assert_eq!(desk.cc().await, "RATE_LIMITED RATE_LIMITED");
        let progress =
            json!({ "session": own_one.session, "token": own_one.token, "outcome": "limited", "progress": "half" });
        assert_eq!(desk.say("end", progress).await.1["state"], "waiting");
        let foreground = desk.started("foreground", "f").await;
        desk.end(foreground, "done").await;
        for key in ["b", "c"] {
            desk.waits("background", key).await;
        }
        assert_eq!(desk.sessions().await["limits_seen"], 1);
        desk.pass(590).await;
        let polls: Vec<_> = [own_one.session, 3, 4].map(|session| desk.poll(session)).into();
        let until = desk.sessions().await["limited_until"].as_u64().unwrap();
        let mut order = Vec::new();
        for poll in polls {
            let (status, answer) = poll.await;
            assert_eq!(status, 200, "{answer}");
            assert!(desk.world.now_ms() >= until);
            order.push(own(&answer).session);
            if order.len() == 1 {
                assert_eq!(answer["progress"], "half");
                assert_eq!(desk.sessions().await["confirming"], true);
            }
            assert_eq!(desk.sessions().await["active"], 1, "one at a time");
            desk.end(own(&answer), "done").await;
        }
        assert_eq!(order, [own_one.session, 3, 4], "in the order in which they were deferred");
        assert_eq!(desk.cc().await, "NORMAL NORMAL");
        assert_eq!(
            desk.events(0)[..9],
            [
                "asked 1",
                "started 1 trial=false item=false",
                "limited 1 five_hour Some(600000)",
                "ended 1 Limited",
                "queued session 40",
                "deferred 1",
                "asked 2",
                "started 2 trial=false item=false",
                "answered 2",
            ]
        );
    });
}

#[test]
fn a_limit_that_only_the_end_tells_is_one_too_and_the_item_goes_back_to_its_place() {
    desk(
        "retry.jitter = 0\nsessions.jitter = 0\nsessions.active_max = 1\nsessions.foreground_reserve = 0",
        async |desk| {
            let running = desk.started("foreground", "run").await;
            let session = desk.waits("background", "wait").await;
            let poll = desk.poll(session);
            desk.end(running, "done").await;
            let first = own(&poll.await.1);
            let from = desk.events(0).len();
            assert_eq!(desk.end(first, "limited").await, "waiting");
            assert_eq!(
                desk.events(from),
                [
                    format!("limited {session} unknown None"),
                    format!("ended {session} Limited"),
                    "released attempts=0 None".to_owned(),
                    format!("deferred {session}"),
                ]
            );
            let before = desk.world.now_ms();
            let (status, _) = desk.poll(session).await;
            assert_eq!(status, 202, "30 s are longer than a poll");
            let (status, answer) = desk.poll(session).await;
            assert_eq!((status, own(&answer).session), (200, session));
            assert!((29_900..30_010).contains(&(desk.world.now_ms() - before)));
            assert_ne!(own(&answer).token, first.token);
        },
    );
}

#[test]
fn a_slot_whose_owner_is_silent_is_reclaimed_and_its_session_waits_again() {
    desk("sessions.active_max = 1\nsessions.foreground_reserve = 0", async |desk| {
        let running = desk.started("foreground", "run").await;
        let session = desk.waits("background", "wait").await;
        let poll = desk.poll(session);
        desk.pass(30).await;
        assert_eq!(desk.alive(running).await, 200);
        assert_eq!(poll.await.0, 202);
        desk.pass(59).await;
        assert_eq!(desk.sessions().await["active"], 1);
        desk.pass(1).await;
        assert_eq!(desk.alive(running).await, 409);
        let (status, answer) = desk.poll(session).await;
        assert_eq!(status, 200);
        desk.pass(61).await;
        assert_eq!(desk.alive(own(&answer)).await, 409);
        assert_eq!((desk.pending().await, desk.sessions().await["active"].clone()), (1, json!(0)));
        let (status, again) = desk.poll(session).await;
        assert_eq!((status, own(&again).session), (200, session));
    });
}

#[test]
fn after_a_restart_slots_limits_and_those_who_wait_are_as_they_were() {
    desk("", async |desk| {
        let mut running = Vec::new();
        for n in 0..3 {
            running.push(desk.started("background", &format!("run {n}")).await);
        }
        let waits = desk.waits("reflection", "wait").await;
        let poll = desk.poll(waits);
        desk.end(running.remove(0), "done").await;
        let leased = own(&poll.await.1);
        let other = desk.waits("background", "other").await;
        desk.limit(leased, "weekly", Some(3_600_000)).await;
        desk.pass(50).await;
        desk.engine.kill();
        desk.pass(30).await;
        desk.start();
        desk.pass(1).await;
        assert_eq!(desk.cc().await, "RATE_LIMITED RATE_LIMITED");
        let sessions = desk.sessions().await;
        assert_eq!((&sessions["active"], &sessions["waiting"]), (&json!(3), &json!(1)));
        for own in running.iter().chain([&leased]) {
            assert_eq!(desk.alive(*own).await, 200, "nobody could say so while the daemon was away");
        }
        assert_eq!(desk.ask("background", "other").await.1["session"], other);
        assert_eq!(desk.end(leased, "done").await, "over");
        for own in running {
            desk.end(own, "done").await;
        }
        desk.pass(3_600).await;
        let (status, answer) = desk.poll(other).await;
        assert_eq!((status, own(&answer).session), (200, other));
        assert!(desk.events(0).contains(&format!("started {other} trial=true item=true")));
    });
}

#[test]
fn sixteen_starts_throttle_and_twenty_use_the_hour_up_but_foreground_goes_on() {
    desk("flap.exempt = [\"cc\"]", async |desk| {
        for n in 0..16 {
            let own = desk.started("background", &format!("{n}")).await;
            desk.end(own, "done").await;
        }
        assert_eq!(desk.cc().await, "THROTTLED THROTTLED");
        assert_eq!(desk.ask("background", "b").await.0, 202);
        for n in 16..20 {
            let own = desk.started("reflection", &format!("{n}")).await;
            desk.end(own, "done").await;
        }
        assert_eq!(desk.cc().await, "RATE_LIMITED RATE_LIMITED");
        let session = desk.waits("reflection", "r").await;
        let own_one = desk.started("foreground", "f").await;
        desk.end(own_one, "done").await;
        desk.pass(3_598).await;
        let (status, answer) = desk.poll(session).await;
        assert_eq!(
            (status, own(&answer).session),
            (200, session),
            "as soon as there is one start less than the budget"
        );
        desk.pass(1).await;
        assert_eq!(desk.cc().await, "NORMAL NORMAL");
    });
}

#[test]
fn a_cancelled_session_is_discarded_and_its_polls_learn_it() {
    desk("sessions.active_max = 1\nsessions.foreground_reserve = 0", async |desk| {
        let running = desk.started("background", "run").await;
        let session = desk.waits("background", "wait").await;
        let poll = desk.poll(session);
        desk.pass(1).await;
        assert_eq!(desk.say("cancel", json!({ "session": running.session })).await.0, 409);
        assert_eq!(desk.say("cancel", json!({ "session": session })).await.0, 200);
        assert_eq!(poll.await.0, 409);
        assert_eq!(desk.say("cancel", json!({ "session": session })).await.0, 200, "it is over as asked");
        assert_eq!(desk.events(0).last().unwrap(), "finished discarded");
        assert_eq!(desk.pending().await, 0);
    });
}

#[test]
fn only_one_of_two_polls_gets_the_slot() {
    desk("sessions.active_max = 1\nsessions.foreground_reserve = 0", async |desk| {
        let running = desk.started("background", "run").await;
        let session = desk.waits("background", "wait").await;
        let (a, b) = (desk.poll(session), desk.poll(session));
        desk.pass(1).await;
        desk.end(running, "done").await;
        assert_eq!((a.await.0, b.await.0), (200, 409));
    });
}

#[test]
fn what_cannot_be_meant_is_told_and_work_type_session_is_not_for_defer() {
    desk("", async |desk| {
        let (status, answer) = desk.say("ask", json!({ "class": "urgent" })).await;
        assert_eq!(status, 400);
        assert!(answer["error"].as_str().unwrap().contains("reflection"), "{answer}");
        assert_eq!(desk.say("ask", json!({ "class": "background", "key": "" })).await.0, 400);
        let own = desk.started("background", "a").await;
        let lost = json!({ "session": own.session, "token": own.token, "outcome": "lost" });
        assert_eq!(desk.say("end", lost).await.0, 400);
        let window = json!({ "session": own.session, "token": own.token, "window": "" });
        assert_eq!(desk.say("limit", window).await.0, 400);
        assert_eq!(desk.say("begin", json!({})).await.0, 404);
        let work = json!({ "work_type": "session", "policy": "drain", "payload": {} });
        let (status, answer) = desk.call("POST", "/v1/defer", work).await;
        assert_eq!(status, 400);
        assert!(answer["error"].as_str().unwrap().contains("/v1/session/ask"), "{answer}");
        for n in 0..2 {
            desk.started("background", &format!("{n}")).await;
        }
        desk.waits("background", "w").await;
        let (status, answer) = desk.ask("reflection", "w").await;
        assert_eq!(status, 400);
        assert!(answer["error"].as_str().unwrap().contains("background"), "{answer}");
    });
}
