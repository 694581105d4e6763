//! A panic in any task fails the run.
//!
//! tokio keeps a task's panic for whoever joins it, and most of our tasks are joined by nobody. So the panic hook
//! notes the first panic of a thread that runs a simulation, and wakes the simulation's main future, which raises it.

use std::cell::RefCell;
use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, Waker};

thread_local! {
    /// `Some` while a simulation runs on this thread.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Watch {
    message: Option<String>,
    waker: Option<Waker>,
}

/// Watches this thread until it is dropped.
pub(super) struct PanicWatch(());

impl PanicWatch {
    pub(super) fn start() -> PanicWatch {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                note(info);
                previous(info);
            }));
        });
        WATCH.with(|watch| *watch.borrow_mut() = Some(Watch::default()));
        PanicWatch(())
    }

    /// The first panic since the start, with its place.
    pub(super) fn take(&self) -> Option<String> {
        WATCH.with(|watch| watch.borrow_mut().as_mut().and_then(|watch| watch.message.take()))
    }

    /// Resolves at the first panic.
    pub(super) fn panicked(&self) -> Panicked<'_> {
        Panicked(self)
    }
}

impl Drop for PanicWatch {
    fn drop(&mut self) {
        WATCH.with(|watch| *watch.borrow_mut() = None);
    }
}

pub(super) struct Panicked<'a>(&'a PanicWatch);

impl Future for Panicked<'_> {
    type Output = String;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<String> {
        if let Some(message) = self.0.take() {
            return Poll::Ready(message);
        }
        WATCH.with(|watch| {
            if let Some(watch) = watch.borrow_mut().as_mut() {
                let kept = watch.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
                if !kept {
                    watch.waker = Some(cx.waker().clone());
                }
            }
        });
        Poll::Pending
    }
}

fn note(info: &panic::PanicHookInfo<'_>) {
    // The thread may be on its way out, or the panic our own: then there is nothing to note.
    let _ = WATCH.try_with(|watch| {
        let Ok(mut watch) = watch.try_borrow_mut() else { return };
        let Some(watch) = watch.as_mut() else { return };
        if watch.message.is_none() {
            let text = info.payload_as_str().unwrap_or("a payload that is not text");
            let place = info.location().map(|place| format!("{}:{}: ", place.file(), place.line())).unwrap_or_default();
            watch.message = Some(format!("{place}{text}"));
            if let Some(waker) = watch.waker.take() {
                waker.wake();
            }
        }
    });
}
