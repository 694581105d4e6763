//! `squalld session run`: a command as a session of the daemon's budget.

use super::USAGE;
use crate::adapter::process::{CommandLaunch, Signal, Signals};
use crate::adapter::{BootClock, OsSeededRng, TokioNet, zone::local_zone};
use crate::base::{MonoTime, SessionClass};
use crate::port::Rng;
use crate::wire::claude::{TABLE_VERSION, newest_version};
use crate::wrapper::{Daemon, Ended, IfUnreachable, Order, Wrapper, key_of};
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;
use std::rc::Rc;

const INTERNAL: u8 = 70;

#[derive(Subcommand)]
pub enum SessionCommand {
    /// Run a command in a slot of the session budget, waiting for one if need be.
    ///
    /// The daemon keeps a budget of Claude Code sessions: so many starts an hour, so many at a time, one slot kept for
    /// you. This asks it for a slot, waits in its queue while there is none, runs the command with your input and output
    /// untouched, reads the output for messages about usage limits, and tells the daemon how it went. While a limit is in
    /// force, only foreground sessions are started.
    #[command(after_long_help = after_long_help())]
    Run(Run),
}

#[derive(Args)]
pub struct Run {
    /// Where the daemon listens.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7878")]
    daemon: String,
    /// What the session is for: foreground is never refused by the hourly budget, background is deferred first.
    #[arg(long, value_enum, default_value_t = Class::Background)]
    class: Class,
    /// Names the work: while it waits or runs, the same key is the same session. Default: made from class and command;
    /// but each foreground session that waits is one of its own, so that a command may run in two windows.
    #[arg(long)]
    key: Option<String>,
    /// What lists of waiting work call it.
    #[arg(long)]
    label: Option<String>,
    /// If no slot is free, leave the work in the queue and exit with 75. The same command later takes it up again.
    #[arg(long)]
    no_wait: bool,
    /// When a usage limit ends the command, wait for the reset and run it again. Without this it ends with the command's
    /// exit code: Claude Code continues by itself at a reset as long as it runs, and would do the work twice.
    #[arg(long)]
    retry_after_limit: bool,
    /// What to do without a daemon. Default: foreground runs outside of any budget, the others fail with 69.
    #[arg(long, value_enum, value_name = "WHAT")]
    if_unreachable: Option<Unreachable>,
    /// Give the command the terminal itself, for a session with a user interface. Its output is then not read, so limits
    /// are not noticed.
    #[arg(long)]
    interactive: bool,
    /// The command and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

fn after_long_help() -> String {
    format!(
        "Examples:
  squalld session run -- claude -p \"Tidy up the changelog\" --output-format stream-json --verbose
  squalld session run --class reflection --label nightly --retry-after-limit -- ./reflect.sh
  squalld session run --class foreground --interactive -- claude
  */10 * * * *  squalld session run --no-wait --key triage -- ./triage.sh

Exit codes:
  that of the command, if it ran (126, 127: it could not be started; 128+n: signal n ended it)
  2   wrong usage
  69  no daemon answered for 10 s, and --if-unreachable says fail
  70  the daemon did not understand the request: its version is another one
  75  no slot is free (--no-wait), or a session with the same key runs already: try again later

Ctrl-C while waiting gives up the place in the queue; SIGTERM and SIGHUP leave the work there, and the same command takes
it up again. While the command runs, signals are its own. It finds the number of its session in SQUALL_SESSION
and, if an earlier run of the same work was ended, that run's Claude Code session id in SQUALL_PROGRESS (claude --resume).

Messages about limits: table {TABLE_VERSION}, up to Claude Code {}. With --output-format stream-json they need not be
guessed from text.",
        newest_version()
    )
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Class {
    Foreground,
    Reflection,
    Background,
}

impl From<Class> for SessionClass {
    fn from(class: Class) -> SessionClass {
        match class {
            Class::Foreground => SessionClass::Foreground,
            Class::Reflection => SessionClass::Reflection,
            Class::Background => SessionClass::Background,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unreachable {
    Run,
    Fail,
}

/// `env`: the process's environment.
pub fn main(command: SessionCommand, env: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    let SessionCommand::Run(run) = command;
    let code = |code: i32| ExitCode::from(u8::try_from(code).unwrap_or(INTERNAL));
    let zone = local_zone(env("TZ"));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("squalld: {error}");
            return ExitCode::from(INTERNAL);
        }
    };
    let clock = Rc::new(BootClock::starting_at(MonoTime::ZERO));
    let daemon = match Daemon::new(&run.daemon, Rc::new(TokioNet::default()), clock.clone()) {
        Ok(daemon) => daemon,
        Err(error) => {
            eprintln!("squalld: --daemon {}: {error}", run.daemon);
            return ExitCode::from(USAGE);
        }
    };
    let class = SessionClass::from(run.class);
    let own_key = run.key.is_none() && class == SessionClass::Foreground && !run.no_wait;
    let mut key = run.key.unwrap_or_else(|| key_of(class, &run.command));
    if own_key {
        match OsSeededRng::new() {
            Ok(mut rng) => key.push_str(&format!("-{:x}", rng.unit().to_bits())),
            Err(error) => {
                eprintln!("squalld: the system has no random numbers: {error}");
                return ExitCode::from(INTERNAL);
            }
        }
    }
    let order = Order {
        class,
        key,
        label: run.label,
        wait: !run.no_wait,
        retry_after_limit: run.retry_after_limit,
        if_unreachable: match run.if_unreachable {
            Some(Unreachable::Run) => IfUnreachable::Run,
            Some(Unreachable::Fail) => IfUnreachable::Fail,
            None => IfUnreachable::usual(class),
        },
    };
    let mut words = run.command.into_iter().map(Into::into);
    let launch = CommandLaunch {
        program: words.next().expect("the command has at least one word"),
        args: words.collect(),
        interactive: run.interactive,
        clock: clock.clone(),
    };
    let wrapper = Wrapper::new(daemon, clock, Rc::new(launch), zone, Rc::new(|line| eprintln!("{line}")));
    let local = tokio::task::LocalSet::new();
    match runtime.block_on(local.run_until(attended(&wrapper, &order))) {
        Ok(Ok(ended)) => {
            told(&ended);
            code(ended.exit_code())
        }
        Ok(Err(signal)) => code(signal.exit_code()),
        Err(error) => {
            eprintln!("squalld: signals cannot be heard: {error}");
            ExitCode::from(INTERNAL)
        }
    }
}

/// Runs the order; a signal ends the waiting, never the command.
async fn attended(wrapper: &Wrapper, order: &Order) -> std::io::Result<Result<Ended, Signal>> {
    let mut signals = Signals::listen()?;
    let mut run = std::pin::pin!(wrapper.run(order));
    loop {
        let signal = tokio::select! {
            biased;
            ended = &mut run => return Ok(Ok(ended)),
            signal = signals.next() => signal,
        };
        if wrapper.is_running() {
            continue; // The command has been told, and ends as it sees fit.
        }
        // Who presses Ctrl-C no longer wants it. Who is shut down does, later.
        if signal == Signal::Interrupt
            && let Err(error) = wrapper.cancel().await
        {
            eprintln!("squalld: the work stays in the queue: {error}");
        }
        return Ok(Err(signal));
    }
}

fn told(ended: &Ended) {
    match ended {
        Ended::Ran { .. } => {}
        Ended::Deferred { session, reason } => {
            eprintln!("squalld: session {session} is in the queue: {reason}; the same command takes it up again");
        }
        Ended::Elsewhere { why, .. } => eprintln!("squalld: {why}"),
        Ended::Unreachable { why } => {
            eprintln!("squalld: {why}; --if-unreachable run would run the command outside of any budget");
        }
        Ended::Refused { why } => eprintln!("squalld: {why}"),
    }
}
