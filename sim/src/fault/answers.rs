//! Faults that answer in a server's place, or spoil its answer: `errors`, `hang`, `slow`, `cut`, `stream_error`,
//! `garbage`, `poison`.
//!
//! Where a fault makes no sense it does nothing and draws nothing: a `stream_error` on a request that is not
//! streamed, spoiled vectors on a chat, `poison` on other content. A `cut` without a place cuts in the middle.
//! `hang` leaves the connection open for good: what hangs when the fault ends hangs on, until its caller gives up.
//! The engine must survive all of them at any share; it need not find out what a 200 with a well-formed but wrong
//! text says. **Source:** scenario.md, "Fault kinds".

use crate::provider::{Call, CallKind, CutAt, Hint, Injected, Pace, Refusal};
use crate::scenario::{Errors, FaultKind, Garbage, Slow};
use crate::seed::Stream;

/// Whether a fault of this kind can do anything to this request.
pub fn applies(kind: &FaultKind, call: &Call<'_>) -> bool {
    match kind {
        FaultKind::Errors(_)
        | FaultKind::Hang
        | FaultKind::Slow(_)
        | FaultKind::Cut { .. }
        | FaultKind::Storm { .. }
        | FaultKind::Limit(_) => true,
        // Signing in is another matter than working.
        FaultKind::SessionLimit(_) => call.kind == CallKind::Turn,
        FaultKind::StreamError { .. } => call.kind == CallKind::Chat { stream: true },
        FaultKind::Garbage(garbage) => match garbage {
            Garbage::Html | Garbage::Empty | Garbage::TruncatedJson => true,
            Garbage::Nan | Garbage::Zero | Garbage::WrongDims | Garbage::FewerVectors => {
                call.kind == CallKind::Embedding
            }
        },
        FaultKind::Poison { text } => call.content.contains(text.as_str()),
        FaultKind::Refuse
        | FaultKind::Blackhole
        | FaultKind::Reset
        | FaultKind::Dns
        | FaultKind::Delay { .. }
        | FaultKind::Loss { .. }
        | FaultKind::Flap { .. }
        | FaultKind::Disk(_)
        | FaultKind::Process(_) => false,
    }
}

/// How `slow` changes the time to the first byte; `None` for every other kind.
pub fn pace(kind: &FaultKind, stream: &mut Stream) -> Option<Pace> {
    match kind {
        FaultKind::Slow(Slow::Latency(dist)) => Some(Pace::Take(dist.sample(stream))),
        FaultKind::Slow(Slow::Factor(factor)) => Some(Pace::Times(*factor)),
        FaultKind::Errors(_)
        | FaultKind::Hang
        | FaultKind::Cut { .. }
        | FaultKind::StreamError { .. }
        | FaultKind::Garbage(_)
        | FaultKind::Poison { .. }
        | FaultKind::Storm { .. }
        | FaultKind::Limit(_)
        | FaultKind::SessionLimit(_)
        | FaultKind::Refuse
        | FaultKind::Blackhole
        | FaultKind::Reset
        | FaultKind::Dns
        | FaultKind::Delay { .. }
        | FaultKind::Loss { .. }
        | FaultKind::Flap { .. }
        | FaultKind::Disk(_)
        | FaultKind::Process(_) => None,
    }
}

/// What a request that this fault hits is answered; `None` if faults of this kind don't answer.
pub fn inject(kind: &FaultKind, stream: &mut Stream) -> Option<Injected> {
    match kind {
        FaultKind::Errors(errors) => Some(error(errors, stream)),
        FaultKind::Hang => Some(Injected::Hang),
        FaultKind::Cut { after_bytes, before_first_token } => Some(Injected::Cut(match after_bytes {
            _ if *before_first_token => CutAt::BeforeFirstToken,
            Some(bytes) => CutAt::Bytes(*bytes),
            None => CutAt::Half,
        })),
        FaultKind::StreamError { after_tokens } => Some(Injected::StreamError { after_tokens: *after_tokens }),
        FaultKind::Garbage(garbage) => Some(Injected::Garbage(*garbage)),
        FaultKind::Poison { .. } => Some(Injected::Poison),
        FaultKind::Slow(_)
        | FaultKind::Storm { .. }
        | FaultKind::Limit(_)
        | FaultKind::SessionLimit(_)
        | FaultKind::Refuse
        | FaultKind::Blackhole
        | FaultKind::Reset
        | FaultKind::Dns
        | FaultKind::Delay { .. }
        | FaultKind::Loss { .. }
        | FaultKind::Flap { .. }
        | FaultKind::Disk(_)
        | FaultKind::Process(_) => None,
    }
}

fn error(errors: &Errors, stream: &mut Stream) -> Injected {
    let hint = Hint::given(errors.retry_after.as_ref(), Hint::Usual);
    let body = errors.body.clone();
    if let Some(name) = &errors.error {
        let refusal =
            Refusal::from_name(name).unwrap_or_else(|| panic!("{name:?} is no refusal, and the board has looked"));
        return Injected::Refusal { refusal, hint, body };
    }
    let status = match errors.status.as_slice() {
        [] => 500,
        [status] => *status,
        several => several[usize::try_from(stream.below(several.len() as u64)).expect("an index fits")],
    };
    Injected::Status { status, hint, body }
}
