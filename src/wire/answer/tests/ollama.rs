//! Ollama's bodies: what is complete, and whose fault the rest is.

use super::*;

fn ollama(status: u16, body: &str) -> Answer {
    read_as(&about(Api::Ollama), status, &[JSON], body)
}

/// An error of Ollama's, to a chat or to an embedding.
fn ollama_error(use_: ChainUse, status: u16, error: &str) -> Answer {
    let body = serde_json::json!({ "error": error }).to_string();
    read_as(&Reading { use_, inputs: 1, ..about(Api::Ollama) }, status, &[JSON], &body)
}

#[test]
fn an_ollama_answer_is_a_success_when_done() {
    let body = |done: &str, rest: &str| {
        format!(
            r#"{{"model":"llama3.2","created_at":"2026-08-21T19:22:45.499127Z","message":{{"role":"assistant","content":"Hello there.","thinking":"Hm."}},"done":{done}{rest}}}"#
        )
    };
    let counts = r#","done_reason":"length","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000"#;
    let usage = Usage { input_tokens: Some(26), output_tokens: Some(282) };
    let expected = Content::Chat { text: "Hello there.".to_owned(), finish: "length".to_owned(), usage };
    assert_eq!(ollama(200, &body("true", counts)).content, Some(expected));
    let Some(Content::Chat { finish, .. }) = ollama(200, &body("true", "")).content else {
        panic!("an older server's")
    };
    assert_eq!(finish, "stop");
    let faults = [
        (body("false", ""), "malformed answer: not done"),
        (body("true", r#","done_reason":"load""#), "malformed answer: the model was only loaded"),
        (r#"{"done":true,"done_reason":"stop"}"#.to_owned(), "malformed answer: no message.content"),
        (String::new(), "200 with an empty body"),
    ];
    for (body, reason) in faults {
        let answer = ollama(200, &body);
        assert_eq!((answer.outcome, answer.reason.as_str()), (Outcome::ProviderFault, reason), "{body}");
    }
}

#[test]
fn ollamas_vectors_are_matched_by_position_and_checked_like_all_others() {
    let about = Reading { api: Api::Ollama, dims: Some(2), ..embedding(2) };
    let of = |vectors: &str| {
        let body = format!(
            r#"{{"model":"all-minilm","embeddings":{vectors},"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}}"#
        );
        read_as(&about, 200, &[JSON], &body)
    };
    let usage = Usage { input_tokens: Some(8), output_tokens: None };
    let vectors = vec![vec![0.5, -0.5], vec![1.0, 0.0]];
    assert_eq!(of("[[0.5,-0.5],[1,0]]").content, Some(Content::Embed { vectors, usage }));
    for (vectors, reason) in [
        ("[]", "0 vectors for 2 inputs"),
        ("[[1,0]]", "1 vectors for 2 inputs"),
        ("[[1,0],[0,0]]", "vector 1 is all zero"),
        ("[[1,0],[1,0,0]]", "vector 1 has 3 dimensions, not 2"),
        ("[[1,0],[1e300,0]]", "vector 1 has a number that is not finite"),
    ] {
        assert_eq!(of(vectors).reason, format!("malformed answer: {reason}"));
    }
    for vectors in ["[[1,0],[null,0]]", "[[1,0],[NaN,0]]", "null", "[1,0]"] {
        assert_eq!(of(vectors).outcome, Outcome::ProviderFault, "{vectors}");
    }
}

#[test]
fn a_full_queue_at_ollama_is_an_overload_and_any_other_503_a_fault() {
    let full =
        ollama_error(ChainUse::Embedding, 503, "server busy, please try again.  maximum pending requests exceeded");
    assert_eq!((full.outcome, full.hint, full.scope), (Outcome::Overloaded, None, ParkScope::Model));
    let loading = ollama_error(ChainUse::Chat, 503, "loading model");
    assert_eq!(loading.outcome, Outcome::ProviderFault);
    assert_eq!(
        ollama(200, r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#).outcome,
        Outcome::Overloaded
    );
}

#[test]
fn a_400_of_ollamas_is_the_runners_or_the_callers_as_its_words_say() {
    use ChainUse::{Chat, Embedding};
    let cases = [
        (
            Embedding,
            400,
            r#"do embedding request: Post "http://127.0.0.1:38271/v1/embeddings": EOF"#,
            Outcome::ProviderFault,
        ),
        (Embedding, 400, "llama runner process no longer running: 2", Outcome::ProviderFault),
        (Embedding, 400, "embedding contains NaN or Inf values", Outcome::ProviderFault),
        (Embedding, 400, "a wording that nobody has seen before", Outcome::ProviderFault),
        (Embedding, 400, "", Outcome::ProviderFault),
        (Embedding, 400, "invalid input type", Outcome::CallersFault),
        (Embedding, 400, "missing request body", Outcome::CallersFault),
        (
            Embedding,
            400,
            "json: cannot unmarshal number into Go struct field EmbedRequest.model of type string",
            Outcome::CallersFault,
        ),
        (Embedding, 400, "the input length exceeds the context length", Outcome::Unfit),
        (Embedding, 400, "input exceeds maximum context length and cannot be truncated further", Outcome::Unfit),
        (Embedding, 500, "the input length exceeds the context length", Outcome::Unfit),
        (Embedding, 400, r#""llama3.2" does not support embeddings"#, Outcome::Unfit),
        (Embedding, 500, "failed to encode response: json: unsupported value: NaN", Outcome::ProviderFault),
        (Embedding, 404, "model 'x' not found", Outcome::Unfit),
        (Chat, 404, r#"model "x" not found, try pulling it first"#, Outcome::Unfit),
        (Chat, 400, "registry.ollama.ai/library/all-minilm:latest does not support chat", Outcome::Unfit),
        (
            Chat,
            400,
            r#"Post "http://127.0.0.1:38271/completion": read tcp: connection reset by peer"#,
            Outcome::ProviderFault,
        ),
        (Chat, 400, "model is required", Outcome::CallersFault),
        (Chat, 400, "think value \"much\" is not allowed", Outcome::CallersFault),
        (Chat, 499, "request canceled", Outcome::ProviderFault),
        (Chat, 500, "llama runner process has terminated: exit status 2", Outcome::ProviderFault),
        (Chat, 500, "model requires more system memory (9.3 GiB) than is available (4.1 GiB)", Outcome::ProviderFault),
        (Chat, 502, "upstream unreachable", Outcome::ProviderFault),
        (Chat, 401, "unauthorized", Outcome::BadKey),
        (Chat, 403, "this model is disabled", Outcome::BadKey),
        (Chat, 429, "too many concurrent requests", Outcome::Throttled),
        (
            Chat,
            429,
            "you (sim) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade",
            Outcome::Quota,
        ),
        (Chat, 429, "you've reached your hourly usage limit, please wait or upgrade to continue", Outcome::Quota),
    ];
    for (use_, status, error, outcome) in cases {
        let answer = ollama_error(use_, status, error);
        assert_eq!((answer.outcome, answer.hint), (outcome, None), "{use_:?} {status} {error}");
    }
    // The same words elsewhere are what they were.
    assert_eq!(openai(400, r#"{"error":"a wording that nobody has seen before"}"#).outcome, Outcome::CallersFault);
    assert_eq!(openai(499, "").outcome, Outcome::CallersFault);
}
