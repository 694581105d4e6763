//! One mistake of each sort: each is one diagnostic, at its line, that says what is wrong.

use super::Scenario;

pub const HEAD: &str = r#"title = "t"
duration = "1h"
settle = "10m"
[[provider]]
name = "a"
api = "openai"
models = ["m"]
[[provider]]
name = "b"
api = "anthropic"
[[channel]]
name = "chat"
"#;

/// The diagnostics of a file whose last tables are `rest`, with lines counted from there.
fn wrong(rest: &str) -> Vec<(i64, String)> {
    let text = format!("{HEAD}{rest}");
    let Err(found) = Scenario::read(&text, "a.toml") else { return Vec::new() };
    let head = HEAD.lines().count() as i64;
    found
        .into_iter()
        .map(|d| (i64::from(d.line) - head, format!("{} ({})", d.message, d.help.unwrap_or_default())))
        .collect()
}

/// One diagnostic, at this line of `rest`, that says this.
#[track_caller]
fn says(rest: &str, line: i64, part: &str) {
    let found = wrong(rest);
    assert!(found.len() == 1 && found[0].0 == line && found[0].1.contains(part), "{rest}\n{found:#?}");
}

#[track_caller]
fn fine(rest: &str) {
    assert_eq!(wrong(rest), [], "{rest}");
}

/// A fault with two good lines before `rest`.
fn fault(kind: &str, rest: &str) -> String {
    format!("[[fault]]\nkind = {kind:?}\ntarget = \"a\"\n{rest}\n")
}

fn load(kind: &str, rest: &str) -> String {
    format!("[[load]]\nkind = {kind:?}\nevery = \"10s\"\n{rest}\n")
}

fn expect(rest: &str) -> String {
    format!("[[expect]]\n{rest}\n")
}

#[test]
fn servers() {
    says("[[provider]]\nname = \"a\"\napi = \"openai\"\n", 2, "another provider or channel named \"a\"");
    says("[[channel]]\nname = \"b\"\n", 2, "another");
    says("[[provider]]\nname = \"llm\"\napi = \"openai\"\n", 2, "no server can be named");
    says("[[provider]]\nname = \"A b\"\napi = \"openai\"\n", 2, "bad name");
    says("[[provider]]\nname = \"c\"\napi = \"antropic\"\n", 3, "for `api`");
    says("[[provider]]\nname = \"c\"\napi = \"qdrant\"\n", 3, "not supported yet");
    says("[[provider]]\nname = \"c\"\napi = \"openai\"\nlimit = {}\n", 4, "limits nothing");
    says("[[provider]]\nname = \"c\"\napi = \"openai\"\nlimit = { rpm = 3 }\n", 4, "unknown key");
    says("[[provider]]\nname = \"c\"\napi = \"openai\"\nmodels = [\"m\", \"m\"]\n", 4, "another model");
    says("[[provider]]\nname = \"c\"\napi = \"anthropic\"\ndims = 768\n", 4, "no embeddings");
    says("[[provider]]\nname = \"c\"\napi = \"openai\"\nlatency = 300\n", 4, "write \"300s\"");
    says("[[provider]]\nname = \"c\"\napi = \"openai\"\nlatency = \"unifrom(1s, 2s)\"\n", 4, "unknown distribution");
    says(
        "[[provider]]\nname = \"c\"\napi = \"mistral\"\ncold_start = \"1s\"\n",
        4,
        "`cold_start` is for api \"ollama\"",
    );
    fine("[[provider]]\nname = \"c\"\napi = \"ollama\"\ncold_start = \"1s\"\ndims = 768\n");
    fine("[[provider]]\nname = \"c\"\napi = \"mistral\"\nmodels = [\"mistral-embed\"]\ndims = 1024\n");
    says("[[provider]]\nname = \"c\"\n", 1, "needs `api`");
    fine("[[provider]]\nname = \"c\"\napi = \"openai\"\ndims = 768\nlocal = true\n");
}

#[test]
fn chains() {
    let chain = |name: &str, use_: &str, entries: &str| {
        format!("[[chain]]\nname = {name:?}\nuse = {use_:?}\nentries = {entries}\n")
    };
    fine(&chain("default", "chat", "[\"a/m\", \"b\"]"));
    says(&chain("default", "chat", "[\"a/n\"]"), 4, "unknown model \"n\"");
    says(&chain("default", "chat", "[\"b/n\"]"), 4, "declares no `models`");
    says(&chain("default", "chat", "[\"c\"]"), 4, "unknown provider");
    says(&chain("default", "chat", "[\"b\", \"b\"]"), 4, "another entry");
    says(&chain("default", "chat", "[]"), 4, "takes 1 to 100");
    says(&chain("default", "chats", "[\"b\"]"), 3, "for `use`");
    says(&chain("e", "embedding", "[\"b\"]"), 4, "has no embedding");
    says(&chain("e", "embedding", "[\"a\"]"), 4, "no `dims`");
    says(&chain("default", "chat", "[\"a\"]").repeat(2), 6, "another chain");
    let two = "[[provider]]\nname = \"c\"\napi = \"openai\"\ndims = 8\n[[provider]]\nname = \"d\"\napi = \"openai\"\ndims = 9\n";
    says(&format!("{two}{}", chain("e", "embedding", "[\"c\", \"d\"]")), 12, "differ in model or dims");
    let one = "[[provider]]\nname = \"c\"\napi = \"openai\"\ndims = 8\n";
    says(&format!("{one}{}", chain("default", "embedding", "[\"c\"]")), 6, "another name");
}

#[test]
fn engine_settings() {
    fine("[engine]\nflap.hold = \"5m\"\n[engine.park]\nmax = \"6m\"\n");
    says("[engine]\nflap.hodl = \"5m\"\n", 2, "unknown key of [flap]");
    says("[engine.flpa]\nhold = \"5m\"\n", 1, "unknown section");
    says("[engine]\nbreaker.rate = 1.2\n", 2, "from 0.001 to 1");
    says("[engine]\nbreaker.open = \"2h\"\n", 2, "larger than `breaker.open_max`");
    says("[engine]\nprovider = []\n", 2, "only the engine's settings");
    says("[engine]\nflap = 3\n", 2, "is a section");
}

#[test]
fn loads_have_one_way_of_arriving() {
    fine(&load("status", ""));
    says("[[load]]\nkind = \"status\"\n", 1, "needs one of `every`");
    says(&load("status", "rate = \"6/m\""), 4, "exclude each other");
    says("[[load]]\nkind = \"status\"\nrate = \"6\"\n", 3, "is no rate");
    says("[[load]]\nkind = \"status\"\nevery = \"0s\"\n", 3, "always zero");
    says("[[load]]\nkind = \"status\"\nevery = \"1ms\"\n", 1, "arrivals are more");
    says("[[load]]\nkind = \"status\"\nrate = \"1000/s\"\n", 1, "arrivals are more");
    says("[[load]]\nkind = \"status\"\nat = [\"1m\", \"70m\"]\n", 3, "past the end");
    says("[[load]]\nkind = \"status\"\nat = [\"1m\"]\nfrom = \"0s\"\n", 4, "goes with");
    says("[[load]]\nkind = \"status\"\nburst = { at = \"69m\", count = 3, over = \"2m\" }\n", 3, "past the end");
    says("[[load]]\nkind = \"status\"\nburst = { at = \"1m\" }\n", 3, "needs `count`");
    says(&load("status", "from = \"5m\"\nto = \"5m\""), 5, "before it begins");
    says(&load("status", "from = \"70m\""), 4, "past the end");
    says(&load("status", "to = \"71m\""), 4, "past the end");
}

#[test]
fn loads_have_the_keys_of_their_kind() {
    says(&load("chat", "work_type = \"x\""), 4, "kinds that have it: defer");
    says(&load("status", "content = \"x\""), 4, "kinds that have it: chat, remember, recall, defer, outreach");
    says(&load("chats", ""), 2, "for `kind`");
    fine(&load("session", "runs_for = \"5m\"\nclass = \"reflection\"\nwait = false"));
    says(&load("session", "class = \"batch\""), 4, "for `class`");
    says(&load("session", "exit = 256"), 4, "from 0 to 255");
    says(&load("chat", "dies_after = \"5m\""), 4, "kinds that have it: session");
    says(&load("chat", "class = \"reflection\""), 4, "for `class`");
    says(&load("chat", "chain = \"x\""), 4, "unknown chat chain");
    says(&load("chat", "content = \"x\"\nrepeat = true"), 5, "generated text");
    says(&load("recall", "transport = \"stdio\""), 4, "not supported yet");
    says(&load("recall", "protocol = \"2025-11-25\""), 4, "not supported yet");
    says(&load("defer", ""), 1, "needs `work_type`");
    says(&load("defer", "work_type = \"x\"\npolicy = \"ttl\""), 5, "needs `ttl`");
    says(&load("defer", "work_type = \"x\"\nttl = \"1h\""), 5, "goes with policy");
    says(&load("defer", "work_type = \"x\"\npriority = 5"), 5, "from 10 to 100");
    says(&load("defer", "work_type = \"x\"\npriority = \"URGENT\""), 5, "for `priority`");
    says(&load("defer", "work_type = \"x\"\ndepends_on = [\"clouds\"]"), 5, "for `depends_on`");
    says(&load("outreach", "topic = \"x\""), 4, "go together");
    says(&load("status", "client = \"\""), 4, "a client's key");
    let nobody = "title = \"t\"\nduration = \"1h\"\n[[load]]\nkind = \"chat\"\nevery = \"1s\"\n[[load]]\nkind = \"outreach\"\nevery = \"1s\"\n";
    let found = Scenario::read(nobody, "a").unwrap_err();
    assert_eq!(found.iter().map(|d| d.line).collect::<Vec<_>>(), [4, 7], "{found:#?}");
}

#[test]
fn targets() {
    fine(&fault("hang", "").replace("\"a\"", "[\"a/m\", \"b\", \"llm\", \"internet\", \"chat\"]"));
    let at = |target: &str| fault("hang", "").replace("\"a\"", target);
    says(&at("\"anthropc\""), 3, "unknown target");
    says(&at("\"a/n\""), 3, "unknown model \"n\"");
    says(&at("[\"a\", \"c/m\"]"), 3, "unknown provider");
    says(&at("\"embedding\""), 3, "no embedding chain");
    says(&at("\"clock\""), 3, "not supported yet");
    for target in ["disk", "engine"] {
        says(&at(&format!("{target:?}")), 3, "hits providers or channels");
    }
    says(&at("\"webhook\""), 3, "no provider of api");
    let hook = "[[provider]]\nname = \"hook\"\napi = \"webhook\"\n";
    fine(&format!("{hook}{}", at("[\"webhook\", \"a\"]")));
    fine(&format!("{hook}{}", at("\"hook\"")));
    says(
        &format!("{hook}{}", fault("limit", "limit = { concurrent = 1 }").replace("\"a\"", "\"hook\"")),
        6,
        "a webhook can't have",
    );
    says(&format!("{hook}{}", hook.replacen("hook", "hook2", 1)), 5, "the engine posts to one");
    says(&fault("dns", "").replace("\"a\"", "\"a/m\""), 3, "hits a whole host");
    says(&fault("poison", "text = \"x\"").replace("\"a\"", "\"chat\""), 3, "a channel can't have");
    says(&fault("garbage", "body = \"nan\""), 3, "for embeddings");
    says("[[fault]]\nkind = \"hang\"\n", 1, "needs `target`");
}

#[test]
fn fault_times_and_shares() {
    says(&fault("hang", "at = \"60m\""), 4, "when faults are over");
    says(&fault("hang", "at = \"uniform(1h, 2h)\""), 4, "when faults are over");
    says(&fault("hang", "lasts = \"0s\""), 4, "always zero");
    says(&fault("hang", "share = 1.5"), 4, "from 0 to 1");
    says(&fault("hang", "share = 0"), 4, "never hits");
    says(&fault("hang", "share = 0.5\nevery_nth = 2"), 5, "exclude each other");
    says(&fault("hang", "chance = -1"), 4, "from 0 to 1");
    says(&fault("hang", "name = \"3\""), 4, "a number, not a name");
    says(&fault("hang", "name = \"x\"").repeat(2), 8, "another fault");
    says(&fault("limit", "limit = { concurrent = 1 }\nshare = 0.5"), 5, "does not belong");
    for (kind, rest) in [("refuse", ""), ("blackhole", ""), ("reset", ""), ("dns", ""), ("delay", "by = \"1s\"\n")] {
        for pick in ["share = 0.5", "every_nth = 2"] {
            says(&fault(kind, &format!("{rest}{pick}")), 4 + rest.lines().count() as i64, "does not belong");
        }
    }
    let flap = "down = \"1s\"\nup = \"1s\"\nof = { kind = \"reset\" }\nevery_nth = 2";
    says(&fault("flap", flap), 7, "the whole link");
}

#[test]
fn faults_that_can_do_nothing_to_their_target() {
    let more = "[[provider]]\nname = \"c\"\napi = \"ollama\"\nlocal = true\n[[provider]]\nname = \"e\"\napi = \"openai\"\ndims = 8\n";
    let says = |kind: &str, target: &str, rest: &str, part: &str| {
        says(&format!("{more}{}", fault(kind, rest).replace("\"a\"", target)), 11, part);
    };
    says("errors", "\"a\"", "error = \"runner_dead\"", "\"a\" speaks openai, which has no refusal \"runner_dead\"");
    says("errors", "\"c\"", "error = \"billing\"", "\"c\" speaks ollama");
    says("errors", "\"llm\"", "error = \"billing\"", "\"c\" speaks ollama");
    says("errors", "\"llm\"", "error = \"runner_dead\"", "\"a\" speaks openai");
    says("errors", "\"chat\"", "error = \"runner_dead\"", "a channel has no refusal");
    says(
        "flap",
        "\"c\"",
        "down = \"1s\"\nup = \"1s\"\nof = { kind = \"errors\", error = \"slow_down\" }",
        "speaks ollama",
    );
    says("stream_error", "\"e\"", &load("chat", "stream = true"), "only chat is streamed");
    says("stream_error", "\"embedding\"", &load("chat", "stream = true"), "only chat is streamed");
    says("garbage", "\"llm\"", "body = \"zero\"", "for embeddings");
    let fine = |kind: &str, target: &str, rest: &str| {
        fine(&format!("{more}{}", fault(kind, rest).replace("\"a\"", target)));
    };
    fine("errors", "\"c\"", "error = \"runner_dead\"");
    fine("errors", "\"internet\"", "error = \"billing\"");
    fine("garbage", "\"internet\"", "body = \"zero\"");
    fine("stream_error", "\"c\"", &load("chat", "stream = true"));
}

#[test]
fn an_error_in_a_stream_needs_somebody_who_streams() {
    says(&fault("stream_error", ""), 2, "no load streams");
    says(&format!("{}{}", load("chat", ""), fault("stream_error", "")), 6, "no load streams");
    says(&fault("flap", "down = \"1s\"\nup = \"1s\"\nof = { kind = \"stream_error\" }"), 2, "no load streams");
    fine(&format!("{}{}", fault("stream_error", ""), load("chat", "stream = true")));
}

#[test]
fn fault_kinds() {
    says(&fault("error", "status = 500"), 2, "for `kind`");
    says(&fault("errors", ""), 1, "needs one of `status`, `error`");
    says(&fault("errors", "status = 500\nerror = \"auth\""), 5, "exclude each other");
    says(&fault("errors", "status = [500, 200]"), 4, "from 300 to 599");
    says(&fault("errors", "error = \"overload\""), 4, "for `error`");
    says(&fault("errors", "status = 500\nretry_after = \"date(x)\""), 5, "`date(…)`");
    says(&fault("errors", "status = 500\nretry_after = 20"), 5, "write \"20s\"");
    says(&fault("slow", ""), 1, "needs one of `latency`, `factor`");
    says(&fault("slow", "factor = 0"), 4, "from 0.001");
    says(&fault("slow", "factor = 2\nstatus = 500"), 5, "kinds that have it: errors");
    says(&fault("cut", ""), 1, "needs one of");
    says(&fault("cut", "before_first_token = false"), 4, "cuts nothing");
    says(&fault("garbage", "body = \"htm\""), 4, "for `body`");
    says(&fault("poison", ""), 1, "needs `text`");
    says(&fault("limit", ""), 1, "needs `limit`");
    says(&fault("storm", "capacity = { concurrent = 0 }"), 4, "from 1 to");
    says(&fault("delay", ""), 1, "needs `by`");
    says(&fault("loss", ""), 1, "needs `share`");
    says(&fault("loss", "share = 0.1\nevery_nth = 2"), 5, "does not belong");
    let flap = |of: &str| fault("flap", &format!("down = \"1s\"\nup = \"1s\"\nof = {of}"));
    fine(&flap("{ kind = \"hang\" }"));
    says(&flap("{ kind = \"flap\" }"), 6, "for `kind`");
    says(&flap("{ kind = \"errors\" }"), 6, "needs one of");
    says(&flap("{ kind = \"errors\", status = 500, share = 0.1 }"), 6, "kinds that have it: loss");
    says(&flap("{}"), 6, "needs `kind`");
    says(&fault("flap", "down = \"1s\"\nof = { kind = \"hang\" }"), 1, "needs `up`");
}

#[test]
fn session_limits() {
    let with = |rest: &str| {
        let server = "[[provider]]\nname = \"cc\"\napi = \"claude-code\"\n";
        format!("[[fault]]\nkind = \"session_limit\"\ntarget = \"cc\"\n{rest}\n{server}")
    };
    fine(&with("window = \"weekly\"\nresets_in = \"2h\"\nmoves_to = [\"4h\", \"23:10\"]\nzone = \"America/Recife\""));
    fine(&with("window = \"five_hour\"\nresets_at = \"2026-01-01T02:00:00Z\""));
    fine(&with("window = \"five_hour\"\nmessage = \"silent-cap\""));
    says(&with("window = \"daily\""), 4, "for `window`");
    says(&with("window = \"weekly\"\nmessage = \"9.9\""), 5, "for `message`");
    says(&with("window = \"weekly\"\nzone = \"Nowhere/City\""), 5, "is no time zone");
    says(&with("window = \"weekly\"\nresets_at = \"soon\""), 5, "is no time");
    says(&with("window = \"weekly\"\nresets_in = \"2h\"\nresets_at = \"14:10\""), 5, "exclude each other");
    says(&with("window = \"weekly\"\nmoves_to = \"2h\""), 5, "none is stated");
    says(&with("window = \"weekly\"\nresets_in = \"2h\"\nmoves_to = \"1h\""), 6, "not later");
    says(&with("window = \"weekly\"").replace("\"cc\"\nwin", "\"a\"\nwin"), 3, "no server that sessions work at");
    says(
        &with("window = \"weekly\"").replace("session_limit", "storm").replace("window = \"weekly\"", ""),
        3,
        "a server of sessions can't",
    );
}

#[test]
fn kinds_that_do_not_act_yet_are_read_and_refused() {
    for (kind, rest) in [
        ("reload", "set = { flap.hold = \"5m\" }"),
        ("stall", "lasts = \"10m\""),
        ("clock_step", "by = \"-2h\""),
        ("suspend", "lasts = \"2h\"\ntarget = \"clock\""),
    ] {
        says(&format!("[[fault]]\nkind = {kind:?}\n{rest}\n"), 2, "not supported yet");
    }
    let found = wrong("[[fault]]\nkind = \"stall\"\nstatus = 500\n");
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3], "{found:?}");
    let found = wrong("[[fault]]\nkind = \"clock_step\"\n");
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2], "{found:?}");
}

#[test]
fn faults_of_the_engines_machine() {
    let machine = |kind: &str, rest: &str| format!("[[fault]]\nkind = {kind:?}\n{rest}\n");
    for (kind, rest) in [
        ("disk_full", "free = \"64KiB\"\ngrow = \"1KiB\"\ntarget = \"disk\""),
        ("disk_full", ""),
        ("disk_error", "op = \"write\"\nnth = 3\ncode = \"FULL\""),
        ("disk_error", "op = \"read\"\nshare = 0.5"),
        ("disk_slow", "latency = \"1s\""),
        ("disk_lying_sync", ""),
        ("disk_corrupt", ""),
        ("lock_held", "lasts = \"1m\""),
        ("reader_held", "at = \"1m\""),
        ("kill", "point = \"outreach.sent\"\nnth = 2\nrestart_after = \"5s\"\ntarget = \"engine\""),
        ("power_loss", "at = \"10m\"\nlasts = \"1m\""),
        ("kill", "point = \"write\""),
    ] {
        fine(&machine(kind, rest));
    }
    says(&machine("disk_full", "free = 64"), 3, "`free`");
    says(&machine("disk_full", "target = \"a\""), 3, "hits the disk");
    says(&machine("disk_error", ""), 1, "needs `op`");
    says(&machine("disk_error", "op = \"sync\"\nnth = 1\nshare = 0.5"), 4, "exclude each other");
    says(&machine("disk_error", "op = \"sync\"\nshare = 0"), 4, "never hits");
    says(&machine("disk_error", "op = \"sync\"\ncode = \"EIO\""), 4, "for `code`");
    says(&machine("disk_slow", ""), 1, "needs `latency`");
    says(&machine("reader_held", ""), 2, "before the engine has made its database");
    says(&machine("kill", ""), 2, "not up yet");
    says(&machine("kill", "at = \"1m\"\nnth = 3"), 4, "say `point`");
    says(&machine("kill", "at = \"1m\"\nlasts = \"1m\"\nrestart_after = \"1m\""), 5, "leave one out");
    says(&machine("kill", "point = \"outreach.snt\""), 3, "unknown event");
    says(&machine("kill", "at = \"1m\"\ntarget = \"disk\""), 4, "hits the engine");
    let row = machine("corrupt_row", "table = \"t\"\nfield = \"f\"\nvalue = 3");
    says(&row, 1, "nothing stops the engine");
    fine(&format!("{row}{}", machine("kill", "at = \"1m\"")));
}

#[test]
fn expectations_about_axes() {
    fine(&expect("axis = \"cloud\"\nat = \"70m\"\nis = \"NORMAL\""));
    says(&expect("axis = \"clouds\"\nat = \"1m\"\nis = \"NORMAL\""), 2, "for `axis`");
    says(&expect("axis = \"cloud\"\nat = \"1m\"\nis = \"NORML\""), 4, "for `is`");
    says(&expect("axis = \"cloud\"\nat = \"1m\"\nis = \"DOWN\""), 4, "axis cloud has no level");
    says(&expect("axis = \"cloud\"\nat = \"71m\"\nis = \"NORMAL\""), 3, "past the end");
    says(&expect("axis = \"cloud\"\nis = \"NORMAL\""), 1, "needs `at`");
    says(&expect("axis = \"cloud\""), 2, "needs one of is");
    says(&expect("axis = \"cloud\"\nat = \"1m\"\nis = \"NORMAL\"\nnever = \"OFFLINE\""), 5, "only one of");
    says(&expect("axis = \"cloud\"\nreaches = \"FALLBACK\"\nwithin = [\"5m\", \"5m\"]"), 4, "before it begins");
    says(&expect("axis = \"cloud\"\nreaches = \"FALLBACK\"\nwithin = [\"5m\", \"2h\"]"), 4, "past the end");
    says(&expect("axis = \"cloud\"\nreaches = \"FALLBACK\"\nwithin = [\"5m\"]"), 4, "takes 2 to 2");
    says(
        &expect("axis = \"cloud\"\nreaches = \"FALLBACK\"\nduring = [\"5m\", \"6m\"]\nwithin = [\"5m\", \"6m\"]"),
        4,
        "belong",
    );
    says(&expect("axis = \"cloud\"\nstays = \"FALLBACK\""), 1, "needs `during`");
    says(&expect("axis = \"cloud\"\nlevels = [\"NORMAL\", \"NORMAL\"]"), 3, "twice in a row");
    says(&expect("axis = \"cloud\"\nlevels = [\"NORMAL\", \"QUEUED\"]"), 3, "no level");
}

#[test]
fn expectations_about_amounts_and_events() {
    says(&expect(""), 1, "about what");
    says(&expect("metric = \"herd_index\"\nevent = \"tick\""), 3, "two expectations");
    says(&expect("metric = \"herd_index\""), 1, "needs `at_least`");
    says(&expect("metric = \"herd_idx\"\nat_most = 3"), 2, "unknown metric");
    says(&expect("metric = \"requests.a\"\nat_most = 3"), 2, "unknown metric");
    fine(&expect("metric = \"requests.a/m\"\nat_most = 3"));
    fine(&expect("metric = \"recover_s.embedding\"\nat_most = 3.5"));
    says(&expect("metric = \"herd_index\"\nat_most = 3\nequals = 3"), 4, "says it all");
    says(&expect("metric = \"herd_index\"\nat_least = 4\nat_most = 3"), 4, "nothing is at least");
    says(&expect("metric = \"herd_index\"\nequals = \"many\""), 3, "must be a number");
    says(&expect("status = \"episodse.cloud\"\nat = \"1m\"\nequals = 1"), 2, "unknown field of the status file");
    says(&expect("status = \"state.clouds\"\nat = \"1m\"\nequals = 1"), 2, "unknown axis");
    says(&expect("status = \"state..x\"\nat = \"1m\"\nequals = 1"), 2, "is no path");
    says(&expect("outside = \"chat.posts\"\nat = \"1m\"\nequals = 1"), 2, "no simulated server");
    says(&expect("event = \"axis.chnged\""), 2, "unknown event");
    says(&expect("event = \"axis.changed\"\nwhere = { form = \"x\" }"), 3, "unknown field of axis.changed");
    says(&expect("event = \"axis.changed\"\nwhere = { to = [\"x\"] }"), 3, "must be a text, a number");
    says(&expect("event = \"tick\"\ncount = {}"), 3, "needs `at_least`");
    says(&expect("event = \"tick\"\ncount = { more = 3 }"), 3, "unknown key");
    says(&expect("order = [\"tick\"]"), 2, "takes 2 to 100");
    says(&expect("order = [\"tick\", \"tock\"]"), 2, "unknown event");
    says(&expect("order = [\"tick\", { event = \"tick\", where = { up = 1 } }]"), 2, "unknown field");
    says(&expect("sometimes = \"hold_startd\""), 2, "for `sometimes`");
}

#[test]
fn the_head_of_the_file() {
    let one = |text: &str, line: u32, part: &str| {
        let found = Scenario::read(text, "a").unwrap_err();
        assert!(found.len() == 1 && found[0].line == line && found[0].message.contains(part), "{text}\n{found:#?}");
    };
    one("title = \"t\"\n", 1, "needs `duration`");
    one("title = \"t\"\nduration = \"0s\"\n", 2, "from 1s");
    one("title = \"t\"\nduration = \"2y\"\n", 2, "unknown unit");
    one("title = \"t\"\nduration = \"1h\"\nseed = -1\n", 3, "`seed`");
    one("title = \"t\"\nduration = \"1h\"\nstarts_at = \"yesterday\"\n", 3, "is no time");
    one("title = \"t\"\nduration = \"1h\"\nrequire = [\"DRAIN-9\"]\n", 3, "for `require`");
    one("title = \"t\"\nduration = \"1h\"\nrequire = [\"DRAIN-1\", \"DRAIN-1\"]\n", 3, "another entry");
    one("title = \"t\"\nduration = \"1h\"\nfault = 3\n", 3, "must be a list of tables");
    one("title = \"t\"\nduration = \"1h\"\n[fault]\nkind = \"hang\"\n", 3, "must be a list of tables");
    one("title = \"t\"\nduration = 1h\n", 2, "needs quotes");
    one("title = \"t\"\nduration = \"1h\"\nduration = \"2h\"\n", 3, "duplicate key");
    one("title = \"t\"\ndurations = \"1h\"\nduration = \"1h\"\n", 2, "unknown key");
}

#[test]
fn a_duration_that_cannot_be_read_is_one_mistake_whatever_counts_on_it() {
    let text = "title = \"t\"\nduration = \"3x\"\n[[provider]]\nname = \"a\"\napi = \"openai\"\n[[load]]\nkind = \"chat\"\nevery = \"10s\"\n";
    let found = Scenario::read(text, "a.toml").unwrap_err();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].message.contains("duration"), "{found:#?}");
}
