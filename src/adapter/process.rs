//! A command of this machine, with its input and output passed through.
//!
//! Bytes go through unchanged and at once; lines are read from a copy. Signals that ask this process to end (SIGTERM,
//! SIGHUP, SIGINT) are passed on, and what the command makes of them is its affair. With a terminal of its own
//! (`interactive`) the command gets ours, and nothing is read.
//! **Source:** engine.md 6 (`squalld session run`).

use crate::base::{MonoTime, Span};
use crate::port::{Clock, LocalFuture};
use crate::wrapper::{Launch, Output, Place, Running};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};

/// A line without an end is handed on in pieces of this length.
const LINE_BYTES_MAX: usize = 4 << 20;
/// A process that the command left behind may hold its output open: so long it is still read after the command's end.
const DRAIN: Span = Span::from_secs(1);

pub struct CommandLaunch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The command talks to our terminal itself.
    pub interactive: bool,
    pub clock: Rc<dyn Clock>,
}

impl Launch for CommandLaunch {
    fn start(&self, place: Option<Place>) -> LocalFuture<'static, io::Result<Box<dyn Running>>> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        if let Some(place) = place {
            command.env("SQUALL_SESSION", place.session.to_string());
            if let Some(progress) = place.progress {
                command.env("SQUALL_PROGRESS", progress);
            }
        }
        if !self.interactive {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let clock = self.clock.clone();
        Box::pin(async move {
            let signals = Signals::listen()?;
            let mut child = command.spawn()?;
            let out = Copied::new(child.stdout.take(), tokio::io::stdout());
            let err = Copied::new(child.stderr.take(), tokio::io::stderr());
            let process = Process { child, out, err, lines: VecDeque::new(), signals, clock, ended: None };
            Ok(Box::new(process) as Box<dyn Running>)
        })
    }
}

struct Process {
    child: Child,
    out: Copied,
    err: Copied,
    lines: VecDeque<String>,
    signals: Signals,
    clock: Rc<dyn Clock>,
    /// Its exit code, and until when its output is still read.
    ended: Option<(i32, MonoTime)>,
}

impl Running for Process {
    fn next(&mut self) -> LocalFuture<'_, Output> {
        Box::pin(async move {
            loop {
                if let Some(line) = self.lines.pop_front() {
                    return Output::Line(line);
                }
                if let Some((exit, _)) = self.ended
                    && self.out.is_over()
                    && self.err.is_over()
                {
                    return Output::Exited(exit);
                }
                let drained_at = self.ended.map(|(_, at)| at);
                tokio::select! {
                    biased;
                    read = self.out.read() => self.out.pass(read, &mut self.lines).await,
                    read = self.err.read() => self.err.pass(read, &mut self.lines).await,
                    status = self.child.wait(), if drained_at.is_none() => {
                        // The system has no word on how it ended: that is no success.
                        let exit = status.map_or(1, exit_code);
                        self.ended = Some((exit, self.clock.mono() + DRAIN));
                    }
                    () = until(&*self.clock, drained_at) => {
                        self.out.give_up(&mut self.lines);
                        self.err.give_up(&mut self.lines);
                    }
                    signal = self.signals.next() => signal.pass_on(&self.child),
                }
            }
        })
    }
}

async fn until(clock: &dyn Clock, at: Option<MonoTime>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// One stream of the command, copied to ours.
struct Copied {
    /// `None`: it is at its end, or is not read.
    from: Option<Box<dyn AsyncRead + Unpin>>,
    /// `None`: nobody wants it any more.
    to: Option<Box<dyn AsyncWrite + Unpin>>,
    piece: Vec<u8>,
    /// Of a line whose end has not come.
    begun: Vec<u8>,
}

impl Copied {
    fn new<R: AsyncRead + Unpin + 'static>(from: Option<R>, to: impl AsyncWrite + Unpin + 'static) -> Copied {
        let from = from.map(|from| Box::new(from) as Box<dyn AsyncRead + Unpin>);
        Copied { from, to: Some(Box::new(to)), piece: vec![0; 16 << 10], begun: Vec::new() }
    }

    fn is_over(&self) -> bool {
        self.from.is_none()
    }

    /// How many bytes came; never resolves once it is over.
    async fn read(&mut self) -> io::Result<usize> {
        match &mut self.from {
            Some(from) => from.read(&mut self.piece).await,
            None => std::future::pending().await,
        }
    }

    /// Copies what came, and takes the lines out of it.
    async fn pass(&mut self, read: io::Result<usize>, lines: &mut VecDeque<String>) {
        let Ok(len @ 1..) = read else {
            self.give_up(lines);
            return;
        };
        let piece = &self.piece[..len];
        if let Some(to) = &mut self.to {
            let written = async {
                to.write_all(piece).await?;
                to.flush().await
            };
            if written.await.is_err() {
                self.to = None; // Whoever read us is gone; the command runs on, and is read on.
            }
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= LINE_BYTES_MAX {
                lines.push_back(line(&std::mem::take(&mut self.begun)));
            }
        }
    }

    fn give_up(&mut self, lines: &mut VecDeque<String>) {
        self.from = None;
        let rest = std::mem::take(&mut self.begun);
        if !rest.is_empty() {
            lines.push_back(line(&rest));
        }
    }
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_owned()
}

#[cfg(unix)]
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
#[cfg(not(unix))]
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// A wish that this process end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
    HangUp,
}

impl Signal {
    /// The exit code of who ends because of it.
    pub const fn exit_code(self) -> i32 {
        match self {
            Signal::HangUp => 129,
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
        }
    }

    #[cfg(unix)]
    fn pass_on(self, child: &Child) {
        // A terminal sends its interrupt to the command as well as to us.
        if self == Signal::Interrupt && io::stdin().is_terminal() {
            return;
        }
        let number = match self {
            Signal::HangUp => rustix::process::Signal::HUP,
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
        };
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It fails for a command that has ended already.
            let _ = rustix::process::kill_process(pid, number);
        }
    }
    #[cfg(not(unix))]
    fn pass_on(self, _: &Child) {}
}

/// The signals that ask this process to end. Each listener hears all of them.
pub struct Signals {
    #[cfg(unix)]
    streams: [(Signal, tokio::signal::unix::Signal); 3],
}

impl Signals {
    #[cfg(unix)]
    pub fn listen() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            streams: [
                (Signal::Interrupt, signal(SignalKind::interrupt())?),
                (Signal::Terminate, signal(SignalKind::terminate())?),
                (Signal::HangUp, signal(SignalKind::hangup())?),
            ],
        })
    }
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {})
    }

    #[cfg(unix)]
    pub async fn next(&mut self) -> Signal {
        let streams = &mut self.streams;
        std::future::poll_fn(|cx| {
            let mut ready =
                streams.iter_mut().filter_map(|(signal, stream)| stream.poll_recv(cx).is_ready().then_some(*signal));
            ready.next().map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
    #[cfg(not(unix))]
    pub async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::adapter::BootClock;

    fn outputs(script: &str) -> Vec<Output> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let launch = CommandLaunch {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            interactive: false,
            clock: Rc::new(BootClock::starting_at(MonoTime::ZERO)),
        };
        let place = Place { session: 7, progress: Some("8f3a".into()) };
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let mut running = launch.start(Some(place)).await.expect("there is a shell");
            let mut outputs = Vec::new();
            loop {
                outputs.push(running.next().await);
                if let Some(Output::Exited(_)) = outputs.last() {
                    return outputs;
                }
            }
        })
    }

    fn line(text: &str) -> Output {
        Output::Line(text.to_owned())
    }

    #[test]
    fn a_commands_lines_come_before_its_exit_code() {
        let script = "echo session $SQUALL_SESSION after $SQUALL_PROGRESS; printf 'no end'; exit 3";
        assert_eq!(outputs(script), [line("session 7 after 8f3a"), line("no end"), Output::Exited(3)]);
        assert_eq!(outputs("echo oops >&2"), [line("oops"), Output::Exited(0)]);
    }

    #[test]
    fn a_command_that_a_signal_ended_has_the_shells_exit_code() {
        assert_eq!(outputs("kill -9 $$"), [Output::Exited(137)]);
    }

    #[test]
    fn what_a_command_left_behind_does_not_keep_it_open() {
        assert_eq!(outputs("echo hi; sleep 30 & exit 0"), [line("hi"), Output::Exited(0)]);
    }

    #[test]
    fn a_command_that_is_not_there_is_not_found() {
        let clock = Rc::new(BootClock::starting_at(MonoTime::ZERO));
        let launch =
            CommandLaunch { program: "no-such-command-here".into(), args: Vec::new(), interactive: false, clock };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let error = runtime.block_on(launch.start(None)).err().expect("nobody has a command of that name");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
