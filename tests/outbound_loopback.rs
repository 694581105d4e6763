//! The HTTP client over the real clock and real sockets, on loopback: what its own tests show over doubles holds here.

use squall::adapter::{BootClock, TokioNet};
use squall::base::rules::{Api, CallRules, ChainUse, ProviderRule};
use squall::base::{MonoTime, Span};
use squall::engine::outbound::{Limits, Outbound, Target, TransportKind};
use squall::port::{Clock, Net};
use squall::wire::{Request, build};
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;

#[test]
fn the_client_works_over_real_sockets_and_the_real_clock() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let net: Rc<dyn Net> = Rc::new(TokioNet::default());
        let clock: Rc<dyn Clock> = Rc::new(BootClock::starting_at(MonoTime(1_000_000)));
        let listener = net.listen("127.0.0.1:0").await.expect("loopback can be listened on");
        let base_url = format!("http://{}/v", listener.local_addr().expect("it is bound"));
        let provider = ProviderRule {
            name: "p".to_owned(),
            api: Api::Openai,
            base_url: base_url.clone(),
            key_env: String::new(),
            models: Vec::new(),
            local: true,
            enabled: true,
            dims: None,
        };
        let request =
            build(&provider, None, &Request::probe(ChainUse::Embedding), None, 1, true).expect("openai can embed");
        let body_len = request.body.len();
        // Two answers over one connection, then silence.
        let server = tokio::task::spawn_local(async move {
            let mut stream = listener.accept().await.expect("accepted");
            let mut got = Vec::new();
            for answered in 1..=3 {
                let body_at = loop {
                    let head_end = got.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
                    if let Some(body_at) = head_end.filter(|at| got.len() >= at + body_len) {
                        break body_at;
                    }
                    if stream.read_buf(&mut got).await.expect("read") == 0 {
                        return answered;
                    }
                };
                assert!(got.starts_with(b"POST /v/v1/embeddings HTTP/1.1\r\n"));
                got.drain(..body_at + body_len);
                if answered < 3 {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.expect("written");
                }
            }
            assert_eq!(stream.read_buf(&mut got).await.expect("a clean end"), 0, "the client hangs up");
            3
        });
        let client = Outbound::new(net, clock.clone());
        let target = Target::parse(&base_url).expect("a base URL");
        let limits = Limits { first_byte: Span::from_ms(60), ..Limits::of(&CallRules::default(), false) };
        for _ in 0..2 {
            let answer = client.exchange(&target, &request, &limits).await.expect("answered");
            assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
        }
        let asked = clock.mono();
        let error = client.exchange(&target, &request, &limits).await.expect_err("silence");
        assert_eq!((error.kind, error.written), (TransportKind::FirstByteTimeout, true), "{error}");
        assert!(clock.mono() - asked >= Span::from_ms(60));
        assert_eq!(server.await.expect("no assertion failed there"), 3);
    });
}
