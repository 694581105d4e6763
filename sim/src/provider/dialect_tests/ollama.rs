//! What is Ollama's own.

use super::super::handle::CallKind;
use super::*;
use Dialect::Ollama;

fn lines(answer: &Answer) -> Vec<Value> {
    answer.body().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_chat_and_its_lines_read_as_documented() {
    let whole = Ollama.success(&desk("m"), &ask(false, Some(2)), &[], 8, None);
    let body = json(&whole);
    assert_eq!((&body["done"], &body["done_reason"], &body["eval_count"]), (&true.into(), &"length".into(), &2.into()));
    let names: Vec<&str> = whole.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "date"], "nothing about limits");

    let text = json(&Ollama.success(&desk("m"), &ask(false, None), &[], 8, None));
    let text = text["message"]["content"].as_str().unwrap().to_owned();
    let answer = Ollama.success(&desk("m"), &ask(true, None), &[], 8, None);
    assert_eq!(header(&answer, "content-type"), Some("application/x-ndjson"));
    let lines = lines(&answer);
    let said: String = lines.iter().filter_map(|line| line["message"]["content"].as_str()).collect();
    assert_eq!(said, text);
    let (last, first) = (lines.last().unwrap(), &lines[..lines.len() - 1]);
    assert_eq!((&last["done"], &last["done_reason"]), (&true.into(), &"stop".into()));
    assert!(first.iter().all(|line| line["done"] == false));
    assert_eq!(first[1]["created_at"], "2023-11-08T13:43:00.020Z");
}

#[test]
fn vectors_come_without_an_index_and_what_is_no_number_can_not_be_written() {
    let inputs = |inputs: &[&str]| Ask::Embed {
        model: Some("m".into()),
        inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
        dims: None,
    };
    let loading = Desk { loading: Span::from_secs(4), ..desk("m") };
    let body = json(&Ollama.success(&loading, &inputs(&["a", "b"]), &[], 8, None));
    assert_eq!(body["embeddings"].as_array().unwrap().len(), 2);
    assert_eq!(body["embeddings"][1].as_array().unwrap().len(), 8);
    assert_eq!(body["load_duration"], 4_000_000_000_u64);
    let none = json(&Ollama.success(&desk("m"), &inputs(&[]), &[], 8, None));
    assert_eq!(none["embeddings"], serde_json::json!([]));
    let nan = Ollama.success(&desk("m"), &inputs(&["a"]), &[], 8, Some(Garbage::Nan));
    assert_eq!(nan.status, 500);
    assert!(json(&nan)["error"].as_str().unwrap().ends_with("unsupported value: NaN"));
}

#[test]
fn every_refusal_has_its_status_and_one_shape() {
    let expected = [
        (Refusal::Overloaded, 503, 503),
        (Refusal::RateLimited, 429, 429),
        (Refusal::InsufficientQuota, 429, 429),
        (Refusal::Auth, 401, 401),
        (Refusal::Permission, 403, 403),
        (Refusal::ModelNotFound, 404, 404),
        (Refusal::ContextLength, 400, 400),
        (Refusal::InvalidRequest, 400, 400),
        (Refusal::ServerError, 500, 500),
        (Refusal::Timeout, 500, 500),
        (Refusal::RunnerDead, 500, 400),
    ];
    let known: Vec<Refusal> = Refusal::ALL.into_iter().filter(|refusal| Ollama.knows(*refusal)).collect();
    assert_eq!(expected.map(|row| row.0).to_vec(), known);
    for (refusal, chat, embedding) in expected {
        for (kind, status) in [(CallKind::Chat { stream: true }, chat), (CallKind::Embedding, embedding)] {
            let answer = Ollama.refusal(&Desk { kind, ..desk("m") }, refusal, &Hint::Usual);
            assert_eq!(answer.status, status, "{refusal:?} {kind:?}");
            assert!(json(&answer)["error"].is_string(), "{refusal:?}");
            assert_eq!((answer.wait_ms, hints(&answer)), (None, Vec::new()), "{refusal:?}");
        }
    }
    let full = Ollama.short(&desk("m"), Short::Concurrent);
    assert_eq!(json(&full)["error"], "server busy, please try again.  maximum pending requests exceeded");
}

#[test]
fn requests_stream_unless_they_say_otherwise_and_long_texts_are_cut_off_unless_they_may_not_be() {
    let chat = |rest: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{rest}}}"#);
    let asked = |rest: &str| parse(Ollama, "/api/chat", &chat(rest)).unwrap();
    let expected = |stream, max_tokens| Ask::Chat { model: Some("m".into()), content: "hi".into(), stream, max_tokens };
    assert_eq!(asked(""), expected(true, None));
    assert_eq!(asked(r#","stream":false,"options":{"num_predict":5}"#), expected(false, Some(5)));

    let embed = |rest: &str| {
        let text = "x".repeat(40_000);
        parse(Ollama, "/api/embed", &format!(r#"{{"model":"m","input":"{text}"{rest}}}"#))
    };
    assert!(embed("").is_ok() && embed(r#","truncate":true"#).is_ok());
    assert_eq!(embed(r#","truncate":false"#).unwrap_err().status, 400);
    assert_eq!(parse(Ollama, "/api/embed", r#"{"model":"m"}"#).map(|ask| ask.content()), Ok(String::new()));
    for (path, body, status) in [
        ("/api/chat", "", 400),
        ("/api/chat", "{", 400),
        ("/api/chat", r#"{"messages":[]}"#, 400),
        ("/api/chat", r#"{"model":"m"}"#, 400),
        ("/api/embed", r#"{"input":"a"}"#, 404),
        ("/api/embed", r#"{"model":"m","input":[7]}"#, 400),
        ("/api/embeddings", "{}", 404),
        ("/api/tags", "{}", 405),
    ] {
        assert_eq!(parse(Ollama, path, body).unwrap_err().status, status, "{path} {body}");
    }
}
