//! `squalld` itself, as a process: it starts from a file, serves, keeps what it was given, ends when asked to.
//!
//! What it decides is judged by drills; here it is shown that the process does the same over the real machine.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// A provider on loopback that answers every chat, and keeps the heads of the requests it saw.
struct Provider {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

#[expect(clippy::disallowed_methods, reason = "the other side of a real socket needs a thread of its own")]
fn provider() -> Provider {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seen_there = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let head = read_request(&mut stream);
            seen_there.lock().expect("not poisoned").push(head);
            let body = json!({"id": "x", "object": "chat.completion", "model": "m", "choices": [{
                "index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]})
            .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            // A client that went away saw what it wanted.
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    Provider { url, seen }
}

/// Head and body.
fn read_request(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).expect("read");
        got.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| body.len() >= length.parse::<usize>().expect("a length")) {
                return text;
            }
        }
        assert!(read > 0, "the request is cut off: {text}");
    }
}

struct Daemon {
    child: Child,
    addr: String,
}

impl Daemon {
    /// Starts on the port that the configuration says (0: any), and waits until it listens.
    fn start(config: &Path, env: &[(&str, &str)]) -> Daemon {
        let mut child = squalld(&["serve", "--config", config.to_str().expect("a plain path")])
            .envs(env.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squalld starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let addr = lines
            .find_map(|line| line.expect("text").strip_prefix("squalld: listening on ").map(str::to_owned))
            .expect("it says where it listens");
        Daemon { child, addr }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.addr).expect("it listens");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: squalld\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).expect("a status line").parse().expect("a status");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// The signal of service managers; waits for the end.
    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill is there").success());
        assert!(self.child.wait().expect("it ends").success(), "a graceful end is a success");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After `stop` there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn squalld(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_squalld"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    squalld(args).output().expect("squalld runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_serves_from_a_file_keeps_its_data_and_ends_when_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let provider = provider();
    let config = folder.path().join("squall.toml");
    let written = format!(
        "data_dir = {data:?}\nlisten = \"127.0.0.1:0\"\n\
         [[provider]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"{url}\"\nkey_env = \"A_KEY\"\nmodels = [\"m1\"]\n\
         [[provider]]\nname = \"off\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\nenabled = false\nkey_env = \"NO_KEY\"\n\
         [[chain]]\nname = \"main\"\nuse = \"chat\"\nentries = [\"off\", \"a/m1\"]\n",
        url = provider.url,
    );
    std::fs::write(&config, written).expect("written");
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});

    let daemon = Daemon::start(&config, &[("A_KEY", "sk-secret")]);
    let (status, answer) = daemon.ask("POST", "/v1/chat", &chat);
    assert_eq!((status, &answer["entry"], &answer["text"]), (200, &json!("a/m1"), &json!("hello")), "{answer}");
    let seen = provider.seen.lock().expect("not poisoned")[0].clone();
    assert!(seen.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{seen}");
    assert!(seen.to_ascii_lowercase().contains("authorization: bearer sk-secret"), "{seen}");
    assert!(seen.contains("\"model\":\"m1\""), "{seen}");
    let (status, remembered) = daemon.ask("POST", "/v1/remember", &json!({"content": "the cat sat"}));
    assert_eq!(status, 200, "{remembered}");
    assert_eq!(daemon.ask("GET", "/healthz", &Value::Null).0, 204);
    daemon.stop();

    let kept: Value =
        serde_json::from_slice(&std::fs::read(data.join("status.json")).expect("a status file")).expect("JSON");
    assert_eq!(kept["incarnation"], json!(1));

    let daemon = Daemon::start(&config, &[("A_KEY", "sk-secret")]);
    let (_, recalled) = daemon.ask("POST", "/v1/recall", &json!({"query": "cat"}));
    assert_eq!(recalled["hits"][0]["content"], json!("the cat sat"), "{recalled}");
    let (_, state) = daemon.ask("GET", "/v1/status", &Value::Null);
    assert_eq!(state["incarnation"], json!(2));
    daemon.stop();
}

#[test]
fn two_daemons_do_not_share_a_data_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("squall.toml");
    let data = folder.path().join("data");
    std::fs::write(&config, format!("data_dir = {data:?}\nlisten = \"127.0.0.1:0\"\n")).expect("written");
    let daemon = Daemon::start(&config, &[]);
    let second = run(&["serve", "--config", config.to_str().expect("a plain path")]);
    assert!(!second.status.success());
    assert!(text(&second.stderr).contains("data"), "{}", text(&second.stderr));
    daemon.stop();
}

#[test]
fn a_wrong_configuration_is_refused_with_every_mistake_and_nothing_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("squall.toml");
    let data = folder.path().join("data");
    std::fs::write(&config, format!("data_dir = {data:?}\n[flap]\nhold = 5\n[braker]\nopen = \"1m\"\n"))
        .expect("written");
    let path = config.to_str().expect("a plain path");
    for args in [
        &["serve", "--config", path][..],
        &["config", "check", "--config", path],
        &["config", "show", "--config", path],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(":3:") && said.contains(":4:") && said.contains("breaker"), "{said}");
    }
    assert!(!data.exists());
    let output = run(&["config", "show", "--set", "flap.hold=60"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("needs a number and a unit"), "{}", text(&output.stderr));
}

#[test]
fn the_example_is_good_and_what_is_shown_is_a_configuration() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/squall.toml");
    assert!(run(&["config", "check", "--config", example]).status.success());
    let shown = run(&["config", "show", "--config", example, "--set", "flap.hold=7m"]);
    assert!(text(&shown.stdout).contains("# --set (default \"10m\")"), "{}", text(&shown.stdout));
    let folder = tempfile::tempdir().expect("a folder");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &shown.stdout).expect("written");
    let twice = run(&["config", "show", "--config", again.to_str().expect("a plain path")]);
    let values = |bytes: &[u8]| -> Vec<String> {
        text(bytes).lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned()).collect()
    };
    assert_eq!(values(&shown.stdout), values(&twice.stdout));
    let ours = |command: &mut Command| {
        let output = command.args(["config", "show"]).output().expect("squalld runs");
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let hook = ("GENESIS_STATUS_WEBHOOK_URL", "http://hook/a");
    let (code, said) = ours(squalld(&[]).env(hook.0, hook.1));
    let line = said.lines().find(|line| line.starts_with("webhook_url")).unwrap_or_default();
    assert!(code == Some(0) && line.contains("http://hook/a") && line.contains(hook.0), "{line}");
    let (_, said) = ours(squalld(&[]).env(hook.0, hook.1).env("SQUALL_STATUS_WEBHOOK_URL", "http://other/"));
    assert!(said.contains("http://other/"), "{said}");
    let (code, said) = ours(squalld(&[]).env(hook.0, "hook"));
    assert!(code == Some(2) && said.contains(hook.0), "{said}");
    let json: Value = serde_json::from_slice(&run(&["config", "show", "--format", "json"]).stdout).expect("JSON");
    assert!(json["settings"].as_array().is_some_and(|all| all.iter().all(|row| row["from"] == json!("default"))));
}

#[test]
fn a_command_runs_as_a_session_of_the_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("squall.toml");
    let data = folder.path().join("data");
    let written = format!("data_dir = {data:?}\nlisten = \"127.0.0.1:0\"\n[sessions]\nactive_max = 2\n");
    std::fs::write(&config, written).expect("written");
    let daemon = Daemon::start(&config, &[]);
    let url = format!("http://{}", daemon.addr);
    let session = |options: &[&str], script: &str| {
        let mut args = vec!["session", "run", "--daemon", &url];
        args.extend(options);
        args.extend(["--", "sh", "-c", script]);
        squalld(&args)
    };

    // Output and exit code are the command's.
    let plain = session(&[], "echo session $SQUALL_SESSION; echo oops >&2; exit 3").output().expect("it runs");
    assert_eq!((text(&plain.stdout), plain.status.code()), ("session 1\n".to_owned(), Some(3)));
    assert_eq!(text(&plain.stderr), "oops\n");

    // The only slot that is not kept for foreground is taken; it is the command's input that ends it.
    let mut holder = session(&["--key", "holder"], "echo started; cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "started");
    let second = session(&["--no-wait"], "echo never").output().expect("it runs");
    assert_eq!((text(&second.stdout), second.status.code()), (String::new(), Some(75)));
    assert!(text(&second.stderr).contains("kept for foreground"), "{}", text(&second.stderr));
    let same = session(&["--key", "holder"], "echo never").output().expect("it runs");
    assert_eq!(same.status.code(), Some(75));
    assert!(text(&same.stderr).contains("runs already"), "{}", text(&same.stderr));
    let foreground = session(&["--class", "foreground"], "echo mine").output().expect("it runs");
    assert_eq!(text(&foreground.stdout), "mine\n");
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it ends").success());

    // A limit in its output is told to the daemon: nothing but foreground is started now.
    let limited =
        session(&["--key", "third"], "echo \"You've hit your session limit\"; exit 1").output().expect("it runs");
    assert_eq!(limited.status.code(), Some(1));
    let (_, state) = daemon.ask("GET", "/v1/status", &Value::Null);
    assert_eq!(state["state"]["cc"], json!("RATE_LIMITED"), "{state}");
    assert_eq!(session(&["--no-wait"], "echo never").output().expect("it runs").status.code(), Some(75));
    daemon.stop();

    let alone = session(&["--if-unreachable", "fail"], "echo never").output().expect("it runs");
    assert_eq!((text(&alone.stdout), alone.status.code()), (String::new(), Some(69)));
}
