use super::*;
use crate::base::{Outcome, Span};
use proptest::prelude::*;

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-6","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüß"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" Gott"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

"#;

const OPENAI: &str = r#": OPENROUTER PROCESSING

data: {"id":"c1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Grüß"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" Gott"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":25,"completion_tokens":15,"total_tokens":40}}

data: [DONE]

"#;

const OLLAMA: &str = r#"{"model":"llama3.2","created_at":"2026-08-21T08:52:19.385Z","message":{"role":"assistant","content":"","thinking":"Hm."},"done":false}
{"model":"llama3.2","created_at":"2026-08-21T08:52:19.406Z","message":{"role":"assistant","content":"Grüß"},"done":false}
{"model":"llama3.2","created_at":"2026-08-21T08:52:19.426Z","message":{"role":"assistant","content":" Gott"},"done":false}
{"model":"llama3.2","created_at":"2026-08-21T08:52:20.012Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":25,"eval_count":15}
"#;

const ALL: [(Api, &str); 4] =
    [(Api::Openai, OPENAI), (Api::Anthropic, ANTHROPIC), (Api::Mistral, OPENAI), (Api::Ollama, OLLAMA)];

fn reader(api: Api, headers: &[(&str, &str)]) -> StreamReader {
    let about = Reading {
        api,
        use_: ChainUse::Chat,
        model: Some("m"),
        inputs: 0,
        dims: None,
        key_worked: false,
        now: WallTime(1_796_040_000_000),
    };
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    StreamReader::new(&about, &headers)
}

/// What a body comes to, in pieces that end at `cuts`.
fn items_of(api: Api, body: &[u8], cuts: &[usize]) -> Vec<StreamItem> {
    let mut reader = reader(api, &[]);
    let mut items = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        items.extend(reader.push(&body[from..cut]));
        from = cut;
    }
    items.extend(reader.end());
    assert!(reader.is_over());
    assert!(reader.push(b"data: more\n\n").is_empty() && reader.end().is_empty(), "nothing follows the end");
    items
}

fn items(api: Api, body: &str) -> Vec<StreamItem> {
    items_of(api, body.as_bytes(), &[])
}

fn whole() -> Vec<StreamItem> {
    let usage = Usage { input_tokens: Some(25), output_tokens: Some(15) };
    vec![StreamItem::Text("Grüß".to_owned()), StreamItem::Text(" Gott".to_owned()), done("stop", usage)]
}

fn done(finish: &str, usage: Usage) -> StreamItem {
    StreamItem::Done { finish: finish.to_owned(), usage }
}

/// The error with which a stream ends, and the text before it.
fn error(items: Vec<StreamItem>) -> (String, Answer) {
    let mut text = String::new();
    for item in items {
        match item {
            StreamItem::Text(more) => text.push_str(&more),
            StreamItem::Done { .. } => panic!("a complete stream: {text:?}"),
            StreamItem::Error(answer) => return (text, answer),
        }
    }
    panic!("a stream without an end: {text:?}")
}

#[test]
fn a_complete_stream_of_any_dialect_gives_its_text_and_its_end() {
    for (api, body) in [(Api::Openai, OPENAI), (Api::Mistral, OPENAI), (Api::Ollama, OLLAMA)] {
        assert_eq!(items(api, body), whole(), "{api:?}");
    }
    let mut expected = whole();
    expected[2] = done("end_turn", Usage { input_tokens: Some(25), output_tokens: Some(15) });
    assert_eq!(items(Api::Anthropic, ANTHROPIC), expected);
}

#[test]
fn chunk_borders_and_line_ends_change_nothing() {
    for line_end in ["\n", "\r\n", "\r"] {
        for (api, body) in ALL {
            if api == Api::Ollama && line_end == "\r" {
                continue; // Lines of JSON end with LF.
            }
            let body = body.replace('\n', line_end);
            let expected = items(api, &body);
            assert_eq!(expected.len(), 3, "{expected:?}");
            for cut in 0..=body.len() {
                assert_eq!(items_of(api, body.as_bytes(), &[cut]), expected, "cut at {cut}");
            }
            let every: Vec<usize> = (0..body.len()).collect();
            assert_eq!(items_of(api, body.as_bytes(), &every), expected);
        }
    }
}

#[test]
fn data_of_several_lines_is_one_event() {
    let body = "data: {\"choices\":[{\ndata:\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\nid: 7\nretry: 3\n\ndata: [DONE]\n\n";
    assert_eq!(items(Api::Openai, body), [StreamItem::Text("x".to_owned()), done("stop", Usage::default())]);
}

#[test]
fn an_end_without_the_terminal_event_is_a_cut_wherever_it_comes() {
    for (api, body) in ALL {
        let terminal = body.trim_end().rfind('\n').expect("a last event");
        for cut in 0..=terminal {
            if !body.is_char_boundary(cut) {
                continue;
            }
            let (text, answer) = error(items(api, &body[..cut]));
            assert!("Grüß Gott".starts_with(&text), "{text}");
            assert_eq!(answer.outcome, Outcome::ProviderFault, "cut at {cut}");
        }
        // The line is there, only the empty one after it is missing.
        let unfinished = format!("{}\n", body.trim_end());
        assert_eq!(items(api, &unfinished).len(), 3);
    }
}

#[test]
fn a_terminal_event_without_a_finish_reason_is_no_end() {
    let (_, answer) = error(items(Api::Openai, "data: [DONE]\n\n"));
    assert_eq!(answer.reason, "the stream ended without a finish reason");
    let (_, answer) = error(items(Api::Anthropic, "data: {\"type\":\"message_stop\"}\n\n"));
    assert_eq!(answer.outcome, Outcome::ProviderFault);
}

#[test]
fn an_error_event_means_what_its_status_would() {
    let anthropic = |kind: &str| {
        let start = ANTHROPIC.find("event: content_block_stop").expect("the text comes before");
        let event = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"M\"}}}}\n\n"
        );
        error(items(Api::Anthropic, &format!("{}{event}", &ANTHROPIC[..start])))
    };
    for (kind, outcome) in [
        ("overloaded_error", Outcome::Overloaded),
        ("rate_limit_error", Outcome::Throttled),
        ("api_error", Outcome::ProviderFault),
        ("timeout_error", Outcome::ProviderFault),
        ("authentication_error", Outcome::ProviderFault),
        ("invalid_request_error", Outcome::CallersFault),
        ("something_new", Outcome::ProviderFault),
    ] {
        let (text, answer) = anthropic(kind);
        assert_eq!((text.as_str(), answer.outcome), ("Grüß Gott", outcome), "{kind}");
        assert!(answer.reason.contains(kind), "{}", answer.reason);
    }
    let quota =
        "data: {\"error\":{\"message\":\"M\",\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}\n\n";
    assert_eq!(error(items(Api::Openai, quota)).1.outcome, Outcome::Quota);
    let server =
        "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\",\"code\":null}}\n\n";
    assert_eq!(error(items(Api::Openai, server)).1.outcome, Outcome::ProviderFault);
}

#[test]
fn an_error_event_is_explained_by_the_answers_headers() {
    let mut reader = reader(Api::Anthropic, &[("retry-after", "12")]);
    let event = b"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let (_, answer) = error(reader.push(event));
    assert_eq!((answer.outcome, answer.hint), (Outcome::Overloaded, Some(Span::from_secs(12))));
}

#[test]
fn a_body_that_is_no_stream_is_malformed_or_the_error_that_it_holds() {
    let (_, page) = error(items(Api::Openai, "<!DOCTYPE html>\n<html><title>Just a moment...</title></html>\n"));
    assert_eq!(page.outcome, Outcome::ProviderFault);
    assert_eq!(page.reason, "malformed answer: not an event stream: <!DOCTYPE html>");
    for body in
        ["", "\n\n", "garbage", "data: {\"choices\":[", "data: {\"choices\":[\n\n", "data: nothing\n\n", "\u{feff}"]
    {
        assert_eq!(error(items(Api::Openai, body)).1.outcome, Outcome::ProviderFault, "{body:?}");
    }
    let whole = r#"{"error":{"message":"Rate limit","type":"requests","code":"rate_limit_exceeded"}}"#;
    assert_eq!(error(items(Api::Openai, whole)).1.outcome, Outcome::Throttled);
    let (_, answer) = error(items_of(Api::Openai, b"data: {\"x\":\"\xff\"}\n\n", &[]));
    assert_eq!(answer.reason, "malformed answer: the stream is not UTF-8");
}

#[test]
fn an_error_in_a_line_of_json_means_what_its_status_would() {
    let failed = |error: &str| {
        let cut = OLLAMA.rfind("{\"model\"").expect("a last line");
        error_of(&format!("{}{}\n", &OLLAMA[..cut], serde_json::json!({ "error": error })))
    };
    for (error, outcome) in [
        ("an error was encountered while running the model: unexpected EOF", Outcome::ProviderFault),
        ("llama runner process no longer running: -1", Outcome::ProviderFault),
        ("server busy, please try again.  maximum pending requests exceeded", Outcome::Overloaded),
        ("the input length exceeds the context length", Outcome::Unfit),
    ] {
        let (text, answer) = failed(error);
        assert_eq!((text.as_str(), answer.outcome), ("Grüß Gott", outcome), "{error}");
        assert!(answer.reason.starts_with("inside a 200: "), "{}", answer.reason);
    }
    let (_, answer) = error_of("<html><title>Just a moment...</title></html>");
    assert!(answer.reason.contains("no line of an answer"), "{}", answer.reason);
    let (_, answer) = error_of("");
    assert_eq!(answer.reason, "the stream ended without its terminal event");
    let (text, answer) = error_of(&OLLAMA.replace("\"stop\"", "\"unload\""));
    assert_eq!((text.as_str(), answer.outcome), ("Grüß Gott", Outcome::ProviderFault));
}

fn error_of(body: &str) -> (String, Answer) {
    error(items(Api::Ollama, body))
}

#[test]
fn a_stream_that_ends_with_the_word_that_it_failed_is_no_success() {
    let body = OPENAI.replace("\"finish_reason\":\"stop\"", "\"finish_reason\":\"error\"");
    let (text, answer) = error(items(Api::Mistral, &body));
    assert_eq!((text.as_str(), answer.outcome), ("Grüß Gott", Outcome::ProviderFault));
    let limit = "data: {\"object\":\"error\",\"message\":\"Rate limit exceeded\",\"type\":\"rate_limited\",\"code\":\"1300\"}\n\n";
    assert_eq!(error(items(Api::Mistral, limit)).1.outcome, Outcome::Throttled);
}

#[test]
fn what_has_no_end_is_given_up() {
    let mut reader = reader(Api::Openai, &[]);
    let mut items = reader.push(b"data: ");
    let chunk = vec![b'x'; 64 * 1024];
    let mut pushes = 0;
    while items.is_empty() {
        items = reader.push(&chunk);
        pushes += 1;
        assert!(pushes < 100, "a line is bounded");
    }
    assert_eq!(error(items).1.reason, "malformed answer: a line or an event of the stream is too long");
}

proptest! {
    #[test]
    fn no_bytes_in_no_pieces_make_the_reader_panic_or_go_on_for_ever(
        chunks in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "(data|event|id|x)?:? ?[\\[{\"a-z:0-9}\\]\r\n]{0,40}\r?\n?\n?".prop_map(String::into_bytes),
            ],
            0..12,
        ),
    ) {
        for (api, _) in ALL {
            let mut reader = reader(api, &[]);
            let mut items: Vec<StreamItem> = chunks.iter().flat_map(|chunk| reader.push(chunk)).collect();
            items.extend(reader.end());
            let ends = items.iter().filter(|item| !matches!(item, StreamItem::Text(_))).count();
            prop_assert_eq!(ends, 1, "every stream ends once");
        }
    }
}
