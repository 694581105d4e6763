use super::*;
use serde_json::{Value, json};

fn provider(api: Api) -> ProviderRule {
    ProviderRule {
        name: "p".to_owned(),
        api,
        base_url: "http://p".to_owned(),
        key_env: String::new(),
        models: Vec::new(),
        local: false,
        enabled: true,
        dims: None,
    }
}

fn chat(stream: bool) -> Request {
    let message = |role, content: &str| Message { role, content: content.to_owned() };
    Request::Chat(ChatRequest {
        system: Some("Be brief.".to_owned()),
        messages: vec![message(Role::User, "Hi"), message(Role::Assistant, "Hello"), message(Role::User, "Why?")],
        max_tokens: 256,
        stream,
        temperature: Some(0.5),
    })
}

fn built(api: Api, model: Option<&str>, request: &Request, probe: bool) -> (HttpRequest, Value) {
    let http = build(&provider(api), model, request, Some("sk-1"), 42, probe).expect("supported");
    let body = serde_json::from_slice(&http.body).expect("JSON");
    (http, body)
}

fn headers(http: &HttpRequest) -> Vec<(&str, &str)> {
    http.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn an_openai_chat_request_is_as_its_api_wants_it() {
    let (http, body) = built(Api::Openai, Some("gpt-4"), &chat(true), false);
    assert_eq!((http.method, http.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(
        headers(&http),
        [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("user-agent", "squall/0.1"),
            ("x-client-request-id", "42"),
            ("authorization", "Bearer sk-1"),
        ]
    );
    let expected = json!({
        "model": "gpt-4",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Hello" },
            { "role": "user", "content": "Why?" },
        ],
        "max_tokens": 256,
        "temperature": 0.5,
        "stream": true,
    });
    assert_eq!(body, expected);
}

#[test]
fn an_anthropic_chat_request_is_as_its_api_wants_it() {
    let (http, body) = built(Api::Anthropic, Some("claude-sonnet-4-6"), &chat(false), false);
    assert_eq!((http.method, http.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(
        headers(&http),
        [
            ("content-type", "application/json"),
            ("accept", "application/json"),
            ("user-agent", "squall/0.1"),
            ("x-client-request-id", "42"),
            ("anthropic-version", "2023-06-01"),
            ("x-api-key", "sk-1"),
        ]
    );
    let expected = json!({
        "model": "claude-sonnet-4-6",
        "max_tokens": 256,
        "system": "Be brief.",
        "messages": [
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Hello" },
            { "role": "user", "content": "Why?" },
        ],
        "temperature": 0.5,
    });
    assert_eq!(body, expected);
}

#[test]
fn an_embedding_request_sends_all_inputs_at_once() {
    let request = Request::Embed(EmbedRequest { inputs: vec!["one".to_owned(), "two".to_owned()] });
    let (http, body) = built(Api::Openai, Some("text-embedding-3-small"), &request, false);
    assert_eq!(http.path, "/v1/embeddings");
    assert_eq!(body, json!({ "model": "text-embedding-3-small", "input": ["one", "two"] }));
}

#[test]
fn a_probe_is_the_smallest_real_request_and_says_that_it_is_one() {
    let (http, body) = built(Api::Openai, Some("m"), &Request::probe(ChainUse::Chat), true);
    assert!(headers(&http).contains(&("user-agent", "squall/0.1 (probe)")));
    assert_eq!(body, json!({ "model": "m", "messages": [{ "role": "user", "content": "ping" }], "max_tokens": 1 }));
    let (http, body) = built(Api::Openai, Some("m"), &Request::probe(ChainUse::Embedding), true);
    assert_eq!(http.path, "/v1/embeddings");
    assert_eq!(body, json!({ "model": "m", "input": ["ping"] }));
    let (_, body) = built(Api::Anthropic, Some("m"), &Request::probe(ChainUse::Chat), true);
    assert_eq!(body, json!({ "model": "m", "max_tokens": 1, "messages": [{ "role": "user", "content": "ping" }] }));
}

#[test]
fn mistral_is_asked_as_openai_is() {
    for request in [chat(true), chat(false), Request::probe(ChainUse::Embedding)] {
        let (mistral, openai) =
            (built(Api::Mistral, Some("m"), &request, false), built(Api::Openai, Some("m"), &request, false));
        assert_eq!(mistral, openai);
    }
}

#[test]
fn an_ollama_request_says_whether_it_streams_and_that_nothing_may_be_cut_off() {
    let (http, body) = built(Api::Ollama, Some("llama3.2"), &chat(true), false);
    assert_eq!((http.path.as_str(), headers(&http)[1]), ("/api/chat", ("accept", "application/x-ndjson")));
    let expected = json!({
        "model": "llama3.2",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Hello" },
            { "role": "user", "content": "Why?" },
        ],
        "options": { "num_predict": 256, "temperature": 0.5 },
        "stream": true,
    });
    assert_eq!(body, expected);
    let (http, body) = built(Api::Ollama, Some("m"), &Request::probe(ChainUse::Chat), true);
    assert_eq!(headers(&http)[1], ("accept", "application/json"));
    assert_eq!((&body["stream"], &body["options"]), (&json!(false), &json!({ "num_predict": 1 })));
    let (http, body) = built(Api::Ollama, Some("nomic-embed-text"), &Request::probe(ChainUse::Embedding), true);
    assert_eq!(http.path, "/api/embed");
    assert_eq!(body, json!({ "model": "nomic-embed-text", "input": ["ping"], "truncate": false }));
}

#[test]
fn without_a_key_or_a_model_none_is_sent() {
    for api in [Api::Openai, Api::Anthropic, Api::Mistral, Api::Ollama] {
        let http = build(&provider(api), None, &chat(false), None, 1, false).expect("supported");
        assert!(headers(&http).iter().all(|(name, _)| !["authorization", "x-api-key"].contains(name)));
        assert!(serde_json::from_slice::<Value>(&http.body).expect("JSON").get("model").is_none());
    }
}

#[test]
fn what_a_dialect_can_not_say_is_refused_by_type() {
    for (api, use_) in
        [(Api::Anthropic, ChainUse::Embedding), (Api::Qdrant, ChainUse::Chat), (Api::Qdrant, ChainUse::Embedding)]
    {
        let error = build(&provider(api), None, &Request::probe(use_), None, 1, true).expect_err("not spoken");
        assert_eq!(error, BuildError::Unsupported { api, use_ });
    }
}

#[test]
fn a_batch_larger_than_the_api_takes_is_refused_before_it_is_sent() {
    for (api, max) in [(Api::Mistral, 256), (Api::Openai, 2_048)] {
        let batch = |len| Request::Embed(EmbedRequest { inputs: vec!["x".to_owned(); len] });
        assert!(build(&provider(api), None, &batch(max), None, 1, false).is_ok());
        let error = build(&provider(api), None, &batch(max + 1), None, 1, false).expect_err("too many");
        assert_eq!(error, BuildError::TooManyInputs { api, inputs: max + 1, max });
    }
}
