//! The simulated world keeps its promises: exact times, faults as a real network shows them, processes that die, and
//! the same run every time.

use bytes::Bytes;
use squall::base::Span;
use squall_sim::scenario::Dist;
use squall_sim::seed::Seed;
use squall_sim::world::http::{Body, Client, ClientError, End, Handler, Reply, serve};
use squall_sim::world::net::TcpStream;
use squall_sim::world::{Exit, Host, LinkRule, World, simulate};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MS: fn(u64) -> Span = Span::from_ms;

fn run<T>(main: impl AsyncFnOnce(World) -> T) -> T {
    simulate(&Seed::new(1), main)
}

/// A client at no distance and a server 20 ms away, which is not started yet.
fn pair(world: &World) -> (Host, Host) {
    (world.add_host("client", Span::ZERO), world.add_host("server", MS(20)))
}

/// Sends back each line it gets, after `pause`.
fn start_echo(host: &Host, pause: Span) {
    let listener = host.listen(80).unwrap();
    let world = host.world().clone();
    host.start(async move {
        loop {
            let mut stream = listener.accept().await.unwrap();
            let world = world.clone();
            tokio::task::spawn_local(async move {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte).await {
                    world.sleep(pause).await;
                    if stream.write_all(&byte).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
}

async fn echo(stream: &mut TcpStream) -> Result<(), ErrorKind> {
    let mut byte = [0];
    stream.write_all(b"x").await.map_err(|error| error.kind())?;
    stream.read_exact(&mut byte).await.map_err(|error| error.kind())?;
    Ok(())
}

fn start_http(host: &Host, answer: impl Fn(&str) -> Body + 'static) {
    let listener = host.listen(80).unwrap();
    let answer = Rc::new(answer);
    let handler: Handler = Rc::new(move |request| {
        let answer = answer.clone();
        Box::pin(async move {
            let headers = vec![("x-seen".into(), request.header("x-own").unwrap_or("none").to_owned())];
            Reply { status: 200, headers, body: answer(&request.path) }
        })
    });
    host.start(serve(listener, handler));
}

async fn get(client: &Client, path: &str) -> Result<Bytes, ClientError> {
    client.send("GET", path, &[("x-own", "1")], Bytes::new()).await.map(|response| response.body)
}

#[test]
fn a_round_trip_takes_exactly_the_links_latency() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, MS(300));
        let mut stream = client.connect("server", 80).await.unwrap();
        assert_eq!(world.now_ms(), 40);
        echo(&mut stream).await.unwrap();
        assert_eq!(world.now_ms(), 40 + 340);
        world.sleep_until_ms(86_400_000).await;
        echo(&mut stream).await.unwrap();
        assert_eq!(world.now_ms(), 86_400_000 + 340);
    });
}

#[test]
fn a_port_where_nobody_listens_refuses_one_round_trip_later() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        assert_eq!(client.connect("server", 81).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(world.now_ms(), 40);
    });
}

#[test]
fn a_link_that_refuses_ends_connections_and_refuses_new_ones_until_it_heals() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut kept = client.connect("server", 80).await.unwrap();
        echo(&mut kept).await.unwrap();
        let start = world.now_ms();
        world.set_link("server", LinkRule { refuse: true, ..LinkRule::default() });
        assert_eq!(client.connect("server", 80).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(world.now_ms() - start, 40);
        assert_eq!(echo(&mut kept).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(world.now_ms() - start, 40);
        world.set_link("server", LinkRule::default());
        echo(&mut client.connect("server", 80).await.unwrap()).await.unwrap();
    });
}

#[test]
fn an_unknown_name_and_a_dns_fault_are_not_found_after_a_while() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut kept = client.connect("server", 80).await.unwrap();
        let start = world.now_ms();
        assert_eq!(client.connect("nobody", 80).await.unwrap_err().kind(), ErrorKind::NotFound);
        world.set_link("server", LinkRule { dns: true, ..LinkRule::default() });
        assert_eq!(client.connect("server", 80).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(world.now_ms() - start, 80);
        echo(&mut kept).await.expect("a connection needs no name any more");
    });
}

#[test]
fn nothing_gets_through_a_blackhole_and_tcp_sends_again_when_it_ends() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut kept = client.connect("server", 80).await.unwrap();
        echo(&mut kept).await.unwrap();
        let start = world.now_ms();
        world.set_link("server", LinkRule { blackhole: true, ..LinkRule::default() });
        let heal = world.spawn({
            let world = world.clone();
            async move {
                world.sleep(Span::from_secs(10)).await;
                world.set_link("server", LinkRule::default());
            }
        });
        assert!(world.timeout(Span::from_secs(5), client.connect("server", 80)).await.is_none());
        // Written at 5 s, lost at 5.02 s, sent again at 5.22, 5.62, 6.42, 8.02 and, the first to arrive, at 11.22 s.
        echo(&mut kept).await.unwrap();
        assert_eq!(world.now_ms() - start, 11_220 + 20);
        heal.await.unwrap();
        let before = world.now_ms();
        client.connect("server", 80).await.unwrap();
        assert_eq!(world.now_ms() - before, 40);
    });
}

#[test]
fn a_connect_into_a_blackhole_succeeds_at_tcps_next_try_after_it() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        world.set_link("server", LinkRule { blackhole: true, ..LinkRule::default() });
        world.spawn({
            let world = world.clone();
            async move {
                world.sleep(Span::from_secs(5)).await;
                world.set_link("server", LinkRule::default());
            }
        });
        let mut stream = client.connect("server", 80).await.unwrap();
        assert_eq!(world.now_ms(), 20 + 7_000 + 20);
        echo(&mut stream).await.unwrap();
    });
}

#[test]
fn a_request_given_up_in_a_blackhole_is_not_served_after_it() {
    run(async |world| {
        let (client, server) = pair(&world);
        let served = Rc::new(Cell::new(0));
        let counted = served.clone();
        start_http(&server, move |_| {
            counted.set(counted.get() + 1);
            Body::Whole(Bytes::new())
        });
        let http = Client::new(&client, "server", 80).with_limit(Span::from_secs(2));
        get(&http, "/").await.unwrap();
        world.set_link("server", LinkRule { blackhole: true, ..LinkRule::default() });
        let timed_out = ClientError::TimedOut { limit: Span::from_secs(2), status: None };
        assert_eq!(get(&http, "/").await, Err(timed_out));
        world.set_link("server", LinkRule::default());
        world.sleep(Span::from_mins(10)).await;
        assert_eq!(served.get(), 1);
        get(&http, "/").await.unwrap();
        assert_eq!(served.get(), 2);
    });
}

#[test]
fn packets_on_their_way_when_a_blackhole_starts_are_lost_too() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut stream = client.connect("server", 80).await.unwrap();
        let start = world.now_ms();
        stream.write_all(b"x").await.unwrap();
        world.sleep(MS(10)).await;
        world.set_link("server", LinkRule { blackhole: true, ..LinkRule::default() });
        world.sleep(MS(20)).await;
        world.set_link("server", LinkRule::default());
        stream.read_exact(&mut [0]).await.unwrap();
        assert_eq!(world.now_ms() - start, 20 + 200 + 20);
    });
}

#[test]
fn a_reset_link_breaks_connections_at_once_and_new_ones_at_their_first_data() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, MS(500));
        let mut stream = client.connect("server", 80).await.unwrap();
        let start = world.now_ms();
        world.spawn({
            let world = world.clone();
            async move {
                world.sleep(MS(100)).await;
                world.set_link("server", LinkRule { reset: true, ..LinkRule::default() });
            }
        });
        assert_eq!(echo(&mut stream).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(world.now_ms() - start, 120);
        let mut next = client.connect("server", 80).await.unwrap();
        assert_eq!(world.now_ms() - start, 160);
        assert_eq!(echo(&mut next).await, Err(ErrorKind::ConnectionReset));
        assert_eq!(world.now_ms() - start, 200);
    });
}

#[test]
fn a_delay_lengthens_each_round_trip_once_and_nothing_overtakes() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut stream = client.connect("server", 80).await.unwrap();
        let start = world.now_ms();
        world.set_link("server", LinkRule { delay: Some(Dist::Fixed(Span::from_secs(3))), ..LinkRule::default() });
        echo(&mut stream).await.unwrap();
        assert_eq!(world.now_ms() - start, 3_040);
        let start = world.now_ms();
        stream.write_all(b"a").await.unwrap();
        world.sleep(MS(100)).await;
        world.set_link("server", LinkRule::default());
        stream.write_all(b"b").await.unwrap();
        let mut back = [0; 2];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!((world.now_ms() - start, &back), (3_040, b"ab"));
    });
}

#[test]
fn lost_packets_arrive_late_in_order_and_all_of_them() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut stream = client.connect("server", 80).await.unwrap();
        world.set_link("server", LinkRule { loss: Some(0.3), ..LinkRule::default() });
        let (mut late, mut took) = (0, Vec::new());
        for _ in 0..200 {
            let start = world.now_ms();
            echo(&mut stream).await.unwrap();
            took.push(world.now_ms() - start);
            late += u32::from(took.last() > Some(&40));
        }
        // Both ways count: 1 - 0.7 * 0.7 = 0.51.
        assert!((80..125).contains(&late), "{late} of 200 were late");
        assert!(took.iter().all(|ms| (ms - 40) % 200 == 0), "{took:?}");
        assert!(took.iter().any(|ms| *ms >= 640), "{took:?}");
        let data: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let (mut read, mut write) = tokio::io::split(stream);
        let sent = data.clone();
        world.spawn(async move { write.write_all(&sent).await.unwrap() });
        let mut back = vec![0; data.len()];
        read.read_exact(&mut back).await.unwrap();
        assert!(back == data);
    });
}

#[test]
fn a_killed_host_refuses_until_it_is_started_again_and_then_listens_on_the_same_port() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut kept = client.connect("server", 80).await.unwrap();
        echo(&mut kept).await.unwrap();
        server.kill();
        assert!(!server.is_running());
        assert_eq!(server.exited().await, Exit::Killed);
        assert_eq!(echo(&mut kept).await, Err(ErrorKind::UnexpectedEof));
        let start = world.now_ms();
        assert_eq!(client.connect("server", 80).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(world.now_ms() - start, 40);
        for _ in 0..3 {
            start_echo(&server, Span::ZERO);
            let mut next = client.connect("server", 80).await.unwrap();
            echo(&mut next).await.unwrap();
            server.kill();
            start_echo(&server, Span::ZERO);
            assert_eq!(echo(&mut next).await, Err(ErrorKind::UnexpectedEof));
            echo(&mut client.connect("server", 80).await.unwrap()).await.unwrap();
            server.kill();
        }
    });
}

#[test]
fn a_host_without_power_says_nothing_and_resets_old_connections_once_it_is_back() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let mut kept = client.connect("server", 80).await.unwrap();
        server.power_cut();
        assert!(world.timeout(Span::from_mins(1), kept.read(&mut [0])).await.is_none());
        assert!(world.timeout(Span::from_secs(5), client.connect("server", 80)).await.is_none());
        start_echo(&server, Span::ZERO);
        echo(&mut client.connect("server", 80).await.unwrap()).await.unwrap();
        assert_eq!(echo(&mut kept).await, Err(ErrorKind::ConnectionReset));
    });
}

#[test]
fn a_host_may_kill_itself_and_a_main_that_ends_takes_its_tasks_along() {
    run(async |world| {
        let (client, server) = pair(&world);
        let own = server.clone();
        let dropped = Rc::new(Cell::new(false));
        struct Sets(Rc<Cell<bool>>);
        impl Drop for Sets {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let sets = Sets(dropped.clone());
        server.start(async move {
            let _sets = sets;
            own.kill();
            std::future::pending::<()>().await;
        });
        assert_eq!(server.exited().await, Exit::Killed);
        assert!(dropped.get());
        dropped.set(false);
        let sets = Sets(dropped.clone());
        client.start(async move {
            tokio::task::spawn_local(async move {
                let _sets = sets;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        assert_eq!(client.exited().await, Exit::Finished);
        assert!(dropped.get());
    });
}

#[test]
fn a_host_started_by_another_outlives_it() {
    run(async |world| {
        let (client, server) = pair(&world);
        let other = world.add_host("other", MS(5));
        let started = server.clone();
        other.start(async move { start_echo(&started, Span::ZERO) });
        assert_eq!(other.exited().await, Exit::Finished);
        echo(&mut client.connect("server", 80).await.unwrap()).await.unwrap();
    });
}

#[test]
fn two_hosts_may_listen_on_one_port_and_one_host_may_not_twice() {
    run(async |world| {
        let (client, server) = pair(&world);
        let other = world.add_host("other", MS(5));
        start_echo(&server, Span::ZERO);
        start_echo(&other, Span::ZERO);
        assert_eq!(server.listen(80).unwrap_err().kind(), ErrorKind::AddrInUse);
        let (mut a, mut b) = (client.connect("server", 80).await.unwrap(), client.connect("other", 80).await.unwrap());
        echo(&mut a).await.unwrap();
        server.kill();
        assert_eq!(echo(&mut a).await, Err(ErrorKind::UnexpectedEof));
        echo(&mut b).await.unwrap();
    });
}

#[test]
fn hosts_may_be_added_after_others_listen_and_one_after_the_network_runs() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_echo(&server, Span::ZERO);
        let later: Vec<Host> = (0..8).map(|n| world.add_host(&format!("later{n}"), MS(1))).collect();
        later.iter().for_each(|host| start_echo(host, Span::ZERO));
        for host in later {
            echo(&mut client.connect(&host.name(), 80).await.unwrap()).await.unwrap();
        }
        let last = world.add_host("last", MS(1));
        start_echo(&last, Span::ZERO);
        echo(&mut client.connect("last", 80).await.unwrap()).await.unwrap();
    });
}

#[test]
fn a_panic_of_any_task_fails_the_run_with_its_message() {
    let message = |main: fn(World)| {
        let failed = catch_unwind(AssertUnwindSafe(|| {
            run(async |world| {
                main(world.clone());
                world.sleep(Span::from_days(1)).await;
            });
        }));
        failed.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default()
    };
    let in_host = message(|world| {
        world.add_host("a", Span::ZERO).start(async {
            tokio::task::spawn_local(async { panic!("in a task of a host") });
            std::future::pending::<()>().await;
        });
    });
    assert!(in_host.contains("in a task of a host") && in_host.contains("world.rs:"), "{in_host}");
    let in_world = message(|world| drop(world.spawn(async { panic!("in a task of the world") })));
    assert!(in_world.contains("in a task of the world"), "{in_world}");
    let stuck = catch_unwind(|| run(async |_| std::future::pending::<()>().await)).unwrap_err();
    assert!(stuck.downcast_ref::<String>().is_some_and(|text| text.contains("nothing can happen any more")));
    assert_eq!(run(async |world| world.now_ms()), 0, "the thread is free for the next simulation");
}

#[test]
fn http_bodies_come_whole_in_pieces_cut_or_never() {
    run(async |world| {
        let (client, server) = pair(&world);
        start_http(&server, |path| {
            let piece = |ms, text: &'static str| (MS(ms), Bytes::from_static(text.as_bytes()));
            match path {
                "/whole?q=1" => Body::Whole(Bytes::from_static(b"whole")),
                "/pieces" => Body::Chunks { chunks: vec![piece(100, "a"), piece(200, "b")], end: End::Complete },
                "/cut" => Body::Chunks { chunks: vec![piece(0, "a"), piece(100, "b"), piece(0, "c")], end: End::Cut },
                _ => Body::Never,
            }
        });
        let http = Client::new(&client, "server", 80).with_limit(Span::from_secs(5));
        let whole = http.send("POST", "/whole?q=1", &[("x-own", "1")], Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!((whole.status, whole.header("x-seen"), &whole.body[..]), (200, Some("1"), &b"whole"[..]));
        assert_eq!(whole.header("date"), None, "hyper's date would be the machine's");
        assert_eq!(world.now_ms(), 80);
        assert_eq!(&get(&http, "/pieces").await.unwrap()[..], b"ab");
        assert_eq!(world.now_ms(), 80 + 340, "the connection was kept");
        let cut = get(&http, "/cut").await.unwrap_err();
        let ClientError::Cut { status: 200, body, .. } = &cut else { panic!("{cut:?}") };
        assert_eq!(&body[..], b"abc");
        assert_eq!(world.now_ms(), 420 + 140);
        let never = get(&http, "/never").await.unwrap_err();
        assert_eq!(never, ClientError::TimedOut { limit: Span::from_secs(5), status: None });
        assert_eq!(world.now_ms(), 560 + 5_000);
        server.kill();
        let refused = ClientError::Connect { kind: ErrorKind::ConnectionRefused };
        assert_eq!(get(&http, "/pieces").await.unwrap_err(), refused);
    });
}

#[test]
fn a_large_body_passes_through_windows_and_buffers() {
    run(async |world| {
        let (client, server) = pair(&world);
        let big = Bytes::from((0..3_000_000u32).map(|n| (n % 251) as u8).collect::<Vec<u8>>());
        let answer = big.clone();
        start_http(&server, move |_| Body::Whole(answer.clone()));
        let http = Client::new(&client, "server", 80);
        let back = http.send("POST", "/", &[], big.clone()).await.unwrap().body;
        assert!(back == big);
        // And with a reader that is slower than the sender.
        let listener = server.listen(81).unwrap();
        let sent = big.clone();
        world.spawn(async move { listener.accept().await.unwrap().write_all(&sent).await.unwrap() });
        let mut stream = client.connect("server", 81).await.unwrap();
        let mut got = Vec::new();
        while got.len() < big.len() {
            world.sleep(MS(50)).await;
            let mut piece = [0; 10_000];
            let len = stream.read(&mut piece).await.unwrap();
            got.extend_from_slice(&piece[..len]);
        }
        assert!(got == big);
    });
}

/// A busy quarter of an hour under every kind of fault, as a log.
fn busy(seed: u64) -> Vec<String> {
    simulate(&Seed::new(seed), async move |world| {
        let log = Rc::new(RefCell::new(Vec::new()));
        let (client, server) = pair(&world);
        let second = world.add_host("second", MS(7));
        for host in [&server, &second] {
            start_http(host, |_| {
                let piece = |ms| (MS(ms), Bytes::from_static(b"data: x\n\n"));
                Body::Chunks { chunks: vec![piece(3), piece(50), piece(400)], end: End::Complete }
            });
        }
        let mut users = Vec::new();
        for user in 0..4u64 {
            let (world, log) = (world.clone(), log.clone());
            let http = Client::new(&client, if user % 2 == 0 { "server" } else { "second" }, 80)
                .with_limit(Span::from_secs(20));
            let mut random = Seed::new(seed).stream(&format!("user.{user}"));
            users.push(world.clone().spawn(async move {
                while world.now_ms() < 900_000 {
                    world.sleep(MS(random.below(3_000))).await;
                    let result = get(&http, "/").await.map(|body| body.len());
                    log.borrow_mut().push(format!("{} user {user}: {result:?}", world.now_ms()));
                }
            }));
        }
        let mut random = Seed::new(seed).stream("faults");
        let healthy = LinkRule::default();
        for at in (0..900_000).step_by(30_000) {
            world.sleep_until_ms(at).await;
            let on = |chance: &mut dyn FnMut(f64) -> bool| chance(0.2);
            let mut chance = |p| random.chance(p);
            let rule = LinkRule {
                refuse: on(&mut chance),
                blackhole: on(&mut chance),
                reset: on(&mut chance),
                dns: on(&mut chance),
                delay: chance(0.4).then_some(Dist::Uniform(MS(0), MS(900))),
                loss: chance(0.4).then_some(0.2),
            };
            world.set_link(if chance(0.5) { "server" } else { "second" }, rule);
            world.sleep(MS(20_000)).await;
            if chance(0.3) {
                world.set_link("server", healthy.clone());
                world.set_link("second", healthy.clone());
            }
        }
        world.set_link("server", healthy.clone());
        world.set_link("second", healthy);
        for user in users {
            user.await.unwrap();
        }
        log.take()
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the simulation must not depend on the thread it runs on")]
fn a_run_is_the_same_again_and_on_every_thread() {
    let first = busy(7);
    assert!(first.len() > 500, "{} calls", first.len());
    for outcome in ["Ok(27)", "Connect", "TimedOut", "NotFound"] {
        assert!(first.iter().any(|line| line.contains(outcome)), "no {outcome}");
    }
    let threads = [std::thread::spawn(|| busy(7)), std::thread::spawn(|| busy(7)), std::thread::spawn(|| busy(8))];
    let [same, same_too, other] = threads.map(|thread| thread.join().unwrap());
    assert!(busy(7) == first && same == first && same_too == first);
    assert!(other != first);
}
