//! A drill, resolved for one seed: every default filled in, every drawn time drawn.
//!
//! **Units:** all times are counted from the start of the run. `line` is where the table stands in the file.

use super::Dist;
use squall::base::{Axis, CallClass, Level, Policy, Rules, SessionClass, Span, WallTime};

#[derive(Clone, Debug)]
pub struct Drill {
    /// As the user named it, with `/` separators; part of the verdict.
    pub file: String,
    pub title: String,
    pub about: String,
    pub source: Vec<String>,
    pub assumed: Vec<String>,
    pub starts_at: WallTime,
    /// Faults happen in `[0, duration)`.
    pub duration: Span,
    /// Then every fault is healed, load goes on, and convergence is judged at the end.
    pub settle: Span,
    pub seed: u64,
    pub require: Vec<String>,
    /// The engine's configuration: `[engine]` over the defaults, with providers, chains and channels filled in.
    pub rules: Rules,
    pub providers: Vec<Provider>,
    pub channels: Vec<Channel>,
    pub loads: Vec<Load>,
    pub faults: Vec<Fault>,
    pub expects: Vec<Expect>,
}

/// What a simulated server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerApi {
    Openai,
    Anthropic,
    Mistral,
    Ollama,
    Qdrant,
    Webhook,
    ClaudeCode,
}

#[derive(Clone, Debug)]
pub struct Provider {
    pub line: u32,
    /// Also its host name.
    pub name: String,
    pub api: ServerApi,
    pub latency: Dist,
    pub models: Vec<String>,
    pub limit: Allowance,
    pub dims: Option<u32>,
    pub local: bool,
    /// How long it takes to load a model that is not in memory; `None`: it has all models at hand.
    pub cold_start: Option<Dist>,
}

/// A provider's own limits; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    pub concurrent: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Channel {
    pub line: u32,
    pub name: String,
    pub latency: Dist,
}

#[derive(Clone, Debug)]
pub struct Load {
    pub line: u32,
    pub kind: LoadKind,
    pub arrivals: Arrivals,
    pub from: Span,
    /// Exclusive. Default: the end of the run, settling included.
    pub to: Span,
    pub client: Client,
}

#[derive(Clone, Debug)]
pub enum Arrivals {
    /// The first at `from`.
    Every(Dist),
    /// Poisson; arrivals per second.
    Rate(f64),
    At(Vec<Span>),
    /// The i-th at `at + i * over / count`.
    Burst {
        at: Span,
        count: u32,
        over: Span,
    },
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// One client on one connection.
    One,
    /// A client of its own, on a connection of its own, for each arrival.
    Each,
    /// One client that declares this key.
    Key(String),
}

/// What is written down; `bytes` pads generated content.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// `None`: generated, unique per arrival unless `repeat`.
    pub text: Option<String>,
    pub bytes: Option<u32>,
    /// The same content again at each arrival.
    pub repeat: bool,
}

#[derive(Clone, Debug)]
pub enum LoadKind {
    Chat {
        class: CallClass,
        chain: Option<String>,
        stream: bool,
        tokens: Option<u32>,
        content: Content,
    },
    Remember {
        content: Content,
    },
    Recall {
        content: Content,
    },
    Defer {
        work_type: String,
        priority: u8,
        policy: Policy,
        ttl: Option<Span>,
        depends_on: Vec<Axis>,
        key: Option<String>,
        content: Content,
    },
    Outreach {
        recipient: String,
        purpose: String,
        occasion: Option<String>,
        topic: Option<String>,
        state: Option<u64>,
        parts: u32,
        content: Content,
    },
    /// A command under the session wrapper.
    Session(SessionLoad),
    Status,
}

/// Claude Code sessions, each under a wrapper of its own.
#[derive(Clone, Debug)]
pub struct SessionLoad {
    pub class: SessionClass,
    /// `None`: each arrival is work of its own.
    pub key: Option<String>,
    /// How long a session works if nothing ends it before.
    pub runs_for: Dist,
    /// Its exit code then.
    pub exit: u8,
    /// Waits for a slot; else it leaves the work in the queue.
    pub wait: bool,
    /// Waits and runs again when a limit has ended it.
    pub retry: bool,
    /// Wrapper and session die without a word, so long after the session's start.
    pub dies_after: Option<Dist>,
    /// The wrapper is gone without a word, so long after it asked, if it still waits then.
    pub leaves_after: Option<Dist>,
}

#[derive(Clone, Debug)]
pub struct Fault {
    pub line: u32,
    pub name: Option<String>,
    /// As written, such as `"errors"`; for a flap, `"flap"`.
    pub kind_text: String,
    /// As written.
    pub target_text: Vec<String>,
    pub kind: FaultKind,
    pub targets: Vec<Target>,
    /// `[at, at + lasts)`.
    pub at: Span,
    pub lasts: Span,
    pub pick: Pick,
}

/// Which of the calls a fault hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    All,
    /// Each call with this chance, 0..=1, from the fault's own random stream.
    Share(f64),
    EveryNth(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Provider(String),
    Model {
        provider: String,
        model: String,
    },
    /// Every provider of a chat chain.
    Llm,
    /// Every provider of an embedding chain.
    Embedding,
    /// Every provider that is not local, the webhook and the channels.
    Internet,
    Channel(String),
    Webhook,
    /// The machine that the engine runs on: its disk, its process.
    Engine,
}

/// What a fault's answer says about waiting.
#[derive(Clone, Debug, PartialEq)]
pub enum RetryAfter {
    /// A header of whole seconds.
    Seconds(Span),
    /// An HTTP date this many milliseconds from now; may be negative.
    Date(i64),
    /// Anything else, literally.
    Literal(String),
}

#[derive(Clone, Debug)]
pub enum FaultKind {
    Errors(Errors),
    Hang,
    Slow(Slow),
    Cut {
        after_bytes: Option<u64>,
        before_first_token: bool,
    },
    StreamError {
        after_tokens: u32,
    },
    Garbage(Garbage),
    Poison {
        text: String,
    },
    Storm {
        retry_after: Option<RetryAfter>,
        capacity: Option<Allowance>,
    },
    Limit(Allowance),
    SessionLimit(SessionLimit),
    Refuse,
    Blackhole,
    Reset,
    Dns,
    Delay {
        by: Dist,
    },
    Loss {
        share: f64,
    },
    /// Down first, then up, and so on; `jitter` stretches or shrinks each phase by up to its share (0..1).
    Flap {
        down: Dist,
        up: Dist,
        jitter: f64,
        of: Box<FaultKind>,
    },
    Disk(DiskFault),
    Process(ProcessFault),
}

/// What is wrong with the engine's disk.
#[derive(Clone, Debug)]
pub enum DiskFault {
    /// Something else fills the disk: `free` bytes are left when it begins, and `grow` bytes are eaten each second.
    Full {
        free: Option<u64>,
        grow: u64,
    },
    Error {
        op: DiskOp,
        code: DiskCode,
        pick: DiskPick,
    },
    /// Each of these operations takes so long, and the engine waits for it.
    Slow {
        op: DiskOp,
        latency: Dist,
    },
    /// A sync says that it is done, and has done nothing.
    LyingSync,
    /// What a power loss finds unsynced may be noise afterwards.
    Corrupt,
    /// Another process holds the database's write lock.
    LockHeld,
    /// Another process reads the database in one long transaction.
    ReaderHeld,
    /// Before the engine's next start, a field of the newest row of a table has this value.
    CorruptRow {
        table: String,
        field: String,
        value: serde_json::Value,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    Read,
    Write,
    Sync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCode {
    Ioerr,
    Full,
    Busy,
    Readonly,
}

/// Which of the operations fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskPick {
    All,
    /// Each with this chance.
    Share(f64),
    /// One: the n-th since the fault began.
    Nth(u64),
}

/// The engine's process comes to harm.
#[derive(Clone, Debug)]
pub enum ProcessFault {
    /// It is gone at once; with `power`, so is what its disk has not synced. It is started again when the fault ends,
    /// or `restart_after` its end at a `point`.
    Stop { power: bool, point: Option<Point>, restart_after: Option<Span> },
}

/// A moment that is named by what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// An event of the history, or [`Point::WRITE`].
    pub event: String,
    /// The how-maniest of the run.
    pub nth: u64,
}

impl Point {
    /// A write, truncation, sync, renaming or deletion that the engine's disk was asked for.
    pub const WRITE: &str = "write";
}

/// A subscription's usage limit, in force while the fault is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimit {
    /// `"five_hour"`, `"weekly"` or `"weekly_model"`.
    pub window: String,
    /// When it says it resets, from the start of the run: the first that is still ahead, none once all have come.
    pub resets: Vec<Span>,
    /// Version of the wording.
    pub message: String,
    /// The zone that some wordings name.
    pub zone: String,
}

#[derive(Clone, Debug)]
pub struct Errors {
    /// Drawn from per call, if `error` is `None`.
    pub status: Vec<u16>,
    /// A named refusal in the provider's own dialect: "overloaded", "insufficient_quota", …
    pub error: Option<String>,
    pub retry_after: Option<RetryAfter>,
    pub body: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Slow {
    Latency(Dist),
    Factor(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    Html,
    Empty,
    TruncatedJson,
    Nan,
    Zero,
    WrongDims,
    FewerVectors,
}

#[derive(Clone, Debug)]
pub struct Expect {
    pub line: u32,
    /// One line for people: "cloud reaches FALLBACK within 0s..90s".
    pub text: String,
    pub what: Expectation,
}

/// `[from, to)`.
pub type Window = (Span, Span);

#[derive(Clone, Debug)]
pub enum Expectation {
    Is {
        axis: Axis,
        at: Span,
        level: Level,
    },
    Reaches {
        axis: Axis,
        within: Window,
        level: Level,
    },
    Stays {
        axis: Axis,
        during: Window,
        level: Level,
    },
    Never {
        axis: Axis,
        during: Window,
        level: Level,
    },
    Levels {
        axis: Axis,
        during: Option<Window>,
        levels: Vec<Level>,
    },
    Metric {
        metric: String,
        bound: Bound,
        during: Option<Window>,
    },
    /// A field of the status file at a time, as a dotted path.
    Status {
        path: String,
        at: Span,
        bound: Bound,
    },
    Outside {
        what: String,
        at: Span,
        bound: Bound,
    },
    Event {
        filter: EventFilter,
        count: Bound,
        during: Option<Window>,
    },
    Order(Vec<EventFilter>),
    Sometimes(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventFilter {
    pub event: String,
    /// Field and value, compared as JSON.
    pub fields: Vec<(String, serde_json::Value)>,
}

/// All given parts hold. `equals` may be text for status fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bound {
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub equals: Option<serde_json::Value>,
}
