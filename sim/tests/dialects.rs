//! The engine's dialects and the simulated servers' were written apart, from the same documents: do they agree?

use squall::base::rules::{Api, ChainUse, ProviderRule};
use squall::base::{Outcome, Span, WallTime};
use squall::wire::{
    self, ChatRequest, Content, EmbedRequest, Message, Reading, Request, Role, StreamItem, StreamReader,
};
use squall_sim::provider::answer::Answer;
use squall_sim::provider::ask::Ask;
use squall_sim::provider::dialect::{Desk, Dialect, Head};
use squall_sim::provider::meter::Short;
use squall_sim::provider::{CallKind, CutAt, Hint, Refusal};
use squall_sim::scenario::{Garbage, RetryAfter};

const WALL_MS: i64 = 1_699_450_980_000;
const ALL: [(Api, Dialect); 4] = [
    (Api::Openai, Dialect::Openai),
    (Api::Anthropic, Dialect::Anthropic),
    (Api::Mistral, Dialect::Mistral),
    (Api::Ollama, Dialect::Ollama),
];
/// Those that have embeddings.
const EMBEDDING: [(Api, Dialect); 3] = [ALL[0], ALL[2], ALL[3]];

fn desk() -> Desk<'static> {
    Desk { wall_ms: WALL_MS, processing: Span::from_ms(900), ..Desk::idle("sim", "m") }
}

fn reading(api: Api, use_: ChainUse) -> Reading<'static> {
    Reading { api, use_, model: Some("m"), inputs: 2, dims: Some(8), key_worked: true, now: WallTime(WALL_MS) }
}

fn chat(stream: bool) -> Request {
    let messages = vec![Message { role: Role::User, content: "hello there".to_owned() }];
    Request::Chat(ChatRequest {
        system: Some("be kind".into()),
        messages,
        max_tokens: 20,
        stream,
        temperature: Some(0.5),
    })
}

fn embed() -> Request {
    Request::Embed(EmbedRequest { inputs: vec!["a".to_owned(), "b".to_owned()] })
}

/// What the server makes of the engine's request.
fn asked((api, dialect): (Api, Dialect), request: &Request, model: Option<&str>) -> Ask {
    let provider = ProviderRule {
        name: "sim".into(),
        api,
        base_url: "http://sim".into(),
        key_env: "KEY".into(),
        models: Vec::new(),
        local: false,
        enabled: true,
        dims: None,
    };
    let built = wire::build(&provider, model, request, Some("sk-sim"), 7, false).expect("every dialect is spoken");
    let head = Head { method: built.method, path: &built.path, headers: &built.headers };
    assert!(dialect.has_key(&head), "{api:?} {:?}", built.headers);
    let models: Vec<String> = model.into_iter().map(str::to_owned).collect();
    dialect.parse(&head, &built.body, &models).unwrap_or_else(|malformed| panic!("{api:?} {malformed:?}"))
}

fn read(api: Api, answer: &Answer, use_: ChainUse) -> wire::Answer {
    wire::read(&reading(api, use_), answer.status, &answer.headers, answer.body().as_bytes())
}

#[test]
fn the_engines_requests_are_understood() {
    for one in ALL {
        for (stream, model) in [(false, Some("m")), (true, Some("m")), (true, None)] {
            let expected = Ask::Chat {
                model: model.map(str::to_owned),
                content: "be kind\nhello there".into(),
                stream,
                max_tokens: Some(20),
            };
            assert_eq!(asked(one, &chat(stream), model), expected);
        }
        assert_eq!(asked(one, &Request::probe(ChainUse::Chat), Some("m")).tokens(), 2);
    }
    let expected = Ask::Embed { model: Some("m".into()), inputs: vec!["a".into(), "b".into()], dims: None };
    for one in EMBEDDING {
        assert_eq!(asked(one, &embed(), Some("m")), expected, "{one:?}");
    }
}

/// What the engine lets through is what the servers take, to the last input.
#[test]
fn a_batch_is_refused_on_both_sides_at_the_same_size() {
    for (api, dialect) in EMBEDDING {
        let Some(max) = wire::request::inputs_max(api) else { continue };
        let batch = |len| Request::Embed(EmbedRequest { inputs: vec!["x".to_owned(); len] });
        asked((api, dialect), &batch(max), Some("m"));
        let body = serde_json::json!({"model": "m", "input": vec!["x"; max + 1]}).to_string();
        let head = Head { method: "POST", path: "/v1/embeddings", headers: &[] };
        let malformed = dialect.parse(&head, body.as_bytes(), &[]).expect_err("too many");
        let read = read(api, &dialect.malformed(&desk(), &malformed), ChainUse::Embedding);
        assert!(matches!(read.outcome, Outcome::Unfit | Outcome::CallersFault), "{api:?} {}", read.reason);
    }
}

#[test]
fn a_success_is_read_as_one() {
    for (api, dialect) in ALL {
        let answer = dialect.success(&desk(), &asked((api, dialect), &chat(false), Some("m")), &[], 8, None);
        let read = read(api, &answer, ChainUse::Chat);
        assert_eq!((read.outcome, read.hint), (Outcome::Success, None), "{}", read.reason);
        let Some(Content::Chat { text, usage, .. }) = read.content else { panic!("a chat") };
        assert_eq!(usage.output_tokens, Some(text.split(' ').count() as u64));
    }
    for (api, dialect) in EMBEDDING {
        let answer = dialect.success(&desk(), &asked((api, dialect), &embed(), Some("m")), &[], 8, None);
        let read = read(api, &answer, ChainUse::Embedding);
        let Some(Content::Embed { vectors, .. }) = read.content else { panic!("{api:?}: {}", read.reason) };
        assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8]);
    }
}

#[test]
fn each_refusal_is_read_as_what_it_is() {
    use Outcome::{CallersFault, Overloaded, ProviderFault, Quota, Throttled, Unfit};
    // At OpenAI, Anthropic, Mistral and Ollama; the key has worked before.
    let expected = [
        (Refusal::Overloaded, [ProviderFault, Overloaded, Overloaded, Overloaded]),
        (Refusal::RateLimited, [Throttled; 4]),
        (Refusal::SlowDown, [Throttled; 4]),
        (Refusal::InsufficientQuota, [Quota; 4]),
        (Refusal::SpendLimit, [Quota; 4]),
        (Refusal::Billing, [Quota; 4]),
        (Refusal::Auth, [ProviderFault; 4]),
        (Refusal::Permission, [ProviderFault; 4]),
        (Refusal::ModelNotFound, [Unfit; 4]),
        (Refusal::ContextLength, [Unfit; 4]),
        (Refusal::InvalidRequest, [CallersFault; 4]),
        (Refusal::ServerError, [ProviderFault; 4]),
        (Refusal::Timeout, [ProviderFault; 4]),
        (Refusal::TooLarge, [CallersFault; 4]),
        (Refusal::RunnerDead, [ProviderFault; 4]),
    ];
    assert_eq!(expected.map(|row| row.0), Refusal::ALL);
    for (refusal, outcomes) in expected {
        for ((api, dialect), outcome) in ALL.into_iter().zip(outcomes) {
            for use_ in [ChainUse::Chat, ChainUse::Embedding] {
                if !dialect.knows(refusal) || (use_ == ChainUse::Embedding && api == Api::Anthropic) {
                    continue;
                }
                let kind = match use_ {
                    ChainUse::Chat => CallKind::Chat { stream: false },
                    ChainUse::Embedding => CallKind::Embedding,
                };
                let answer = dialect.refusal(&Desk { kind, ..desk() }, refusal, &Hint::Usual);
                let read = read(api, &answer, use_);
                assert_eq!(read.outcome, outcome, "{api:?} {use_:?} {refusal:?}: {}", read.reason);
                assert_eq!(read.hint.map(Span::ms), answer.wait_ms, "{api:?} {use_:?} {refusal:?}");
                assert!(!read.reason.is_empty());
            }
        }
    }
}

#[test]
fn a_key_that_never_worked_is_bad_in_every_dialect() {
    for (api, dialect) in ALL {
        for refusal in [Refusal::Auth, Refusal::Permission] {
            let answer = dialect.refusal(&desk(), refusal, &Hint::Usual);
            let about = Reading { key_worked: false, ..reading(api, ChainUse::Chat) };
            let read = wire::read(&about, answer.status, &answer.headers, answer.body().as_bytes());
            assert_eq!(read.outcome, Outcome::BadKey, "{api:?} {refusal:?}: {}", read.reason);
        }
    }
}

#[test]
fn every_bare_status_is_read_as_the_table_has_it() {
    for (api, dialect) in ALL {
        for status in 300..600 {
            let answer = dialect.status(&desk(), status, &Hint::None);
            let read = read(api, &answer, ChainUse::Chat);
            let expected = match status {
                402 => Outcome::Quota,
                404 => continue, // A missing model in some dialects, a missing route in others.
                429 => Outcome::Throttled,
                503 if api == Api::Ollama => Outcome::Overloaded,
                499 if api == Api::Ollama => Outcome::ProviderFault,
                401 | 403 | 408 | 409 | 425 => Outcome::ProviderFault,
                400..=499 => Outcome::CallersFault,
                529 => Outcome::Overloaded,
                _ => Outcome::ProviderFault,
            };
            assert_eq!(read.outcome, expected, "{api:?} {status}: {}", read.reason);
            assert_eq!(read.hint, None, "{api:?} {status}");
        }
    }
}

#[test]
fn a_wait_is_read_as_long_as_it_was_stated_at_least() {
    for (api, dialect) in ALL {
        for ms in [1_000, 1_500, 20_000, 90_250, 3_600_000] {
            let answer = dialect.short(&desk(), Short::Requests { wait: Span::from_ms(ms) });
            let read = read(api, &answer, ChainUse::Chat);
            if matches!(api, Api::Mistral | Api::Ollama) {
                // They state none, so none is read.
                assert_eq!((read.outcome, read.hint, answer.wait_ms), (Outcome::Throttled, None, None), "{api:?}");
                continue;
            }
            let hint = read.hint.expect("a wait").ms();
            assert!((ms..=ms + 1_000).contains(&hint), "{api:?} {ms} was read as {hint}");
        }
        let given = [
            (RetryAfter::Seconds(Span::from_secs(30)), Some(30_000)),
            (RetryAfter::Date(90_000), Some(90_000)),
            (RetryAfter::Date(-60_000), Some(0)),
            (RetryAfter::Literal("-5".into()), Some(0)),
            (RetryAfter::Literal("soon".into()), None),
        ];
        for (retry_after, wait) in given {
            let answer = dialect.refusal(&desk(), Refusal::RateLimited, &Hint::Given(retry_after.clone()));
            assert_eq!(read(api, &answer, ChainUse::Chat).hint.map(Span::ms), wait, "{api:?} {retry_after:?}");
            assert_eq!(answer.wait_ms, wait);
        }
        for status in [429, 502, 503] {
            let answer = dialect.status(&desk(), status, &Hint::None);
            assert_eq!(read(api, &answer, ChainUse::Chat).hint, None, "{api:?} {status}");
        }
    }
}

/// The text of a stream, and how it ended: `Ok` with the finish reason.
fn stream(api: Api, answer: &Answer) -> (String, Result<String, Outcome>) {
    let mut reader = StreamReader::new(&reading(api, ChainUse::Chat), &answer.headers);
    let mut items = Vec::new();
    for chunk in answer.body().as_bytes().chunks(7) {
        items.extend(reader.push(chunk));
    }
    items.extend(reader.end());
    let mut text = String::new();
    for item in items {
        match item {
            StreamItem::Text(more) => text.push_str(&more),
            StreamItem::Done { finish, .. } => return (text, Ok(finish)),
            StreamItem::Error(answer) => return (text, Err(answer.outcome)),
        }
    }
    panic!("the stream has no end");
}

#[test]
fn a_stream_and_its_flaws_are_read_as_such() {
    for (api, dialect) in ALL {
        let whole = || dialect.success(&desk(), &asked((api, dialect), &chat(true), Some("m")), &[], 8, None);
        let (text, end) = stream(api, &whole());
        assert!(end.is_ok() && text.contains(' '), "{api:?} {text:?} {end:?}");
        assert_eq!(stream(api, &whole().cut(CutAt::BeforeFirstToken)), (String::new(), Err(Outcome::ProviderFault)));
        let (part, end) = stream(api, &whole().cut(CutAt::Half));
        assert!(text.starts_with(&part) && !part.is_empty() && end == Err(Outcome::ProviderFault), "{api:?}");
        let (part, end) = stream(api, &whole().fail_after(3, dialect.stream_error()));
        assert_eq!(part.split(' ').count(), 3);
        assert!(matches!(end, Err(Outcome::ProviderFault | Outcome::Overloaded)), "{api:?} {end:?}");
        for garbage in [Garbage::Html, Garbage::Empty, Garbage::TruncatedJson] {
            let (_, end) = stream(api, &whole().spoil(garbage));
            assert_eq!(end, Err(Outcome::ProviderFault), "{api:?} {garbage:?}");
        }
    }
}

#[test]
fn garbage_is_a_providers_fault() {
    for (api, dialect) in ALL {
        for garbage in [Garbage::Html, Garbage::Empty, Garbage::TruncatedJson] {
            let ask = asked((api, dialect), &chat(false), Some("m"));
            let answer = dialect.success(&desk(), &ask, &[], 8, Some(garbage)).spoil(garbage);
            assert_eq!(read(api, &answer, ChainUse::Chat).outcome, Outcome::ProviderFault, "{api:?} {garbage:?}");
        }
    }
    for (api, dialect) in EMBEDDING {
        for garbage in [
            Garbage::Html,
            Garbage::Empty,
            Garbage::TruncatedJson,
            Garbage::Nan,
            Garbage::Zero,
            Garbage::WrongDims,
            Garbage::FewerVectors,
        ] {
            let ask = asked((api, dialect), &embed(), Some("m"));
            let answer = dialect.success(&desk(), &ask, &[], 8, Some(garbage)).spoil(garbage);
            let read = read(api, &answer, ChainUse::Embedding);
            assert_eq!(read.outcome, Outcome::ProviderFault, "{api:?} {garbage:?}: {}", read.reason);
        }
    }
}

#[test]
fn what_breaks_a_server_is_its_fault_and_its_cut_vectors_are_none() {
    for (api, dialect) in EMBEDDING {
        let poison = dialect.poison(&Desk { kind: CallKind::Embedding, ..desk() });
        assert_eq!(read(api, &poison, ChainUse::Embedding).outcome, Outcome::ProviderFault, "{api:?}");
        let ask = asked((api, dialect), &embed(), Some("m"));
        let answer = dialect.success(&desk(), &ask, &[], 8, None).cut(CutAt::Half);
        assert_eq!(read(api, &answer, ChainUse::Embedding).outcome, Outcome::ProviderFault, "{api:?}");
    }
}
