//! Many runs beside each other, each whole in a thread of its own, their results in the order of the list.
//!
//! The one place where the harness starts threads: a simulation never sees another, and nothing of a result depends on
//! which thread it was made in or when it was done. A result that is done early waits here until its turn comes; it is a
//! verdict, not a history, so many may wait.
//! **Source:** harness.md "A run" (`--jobs`).

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// What is told while a sweep goes on.
pub enum News<R> {
    /// The piece of that index is done; its turn has come.
    Done(usize, R),
    /// So many pieces are done, whether or not it is their turn.
    Count(usize),
}

/// Does `work` for every index in `0..count` on up to `threads` threads, and hands the results to `tell` in rising
/// order. When `tell` breaks off, no result after that one is told, whatever was finished already.
#[expect(clippy::disallowed_methods, reason = "whole simulations beside each other; none sees another")]
pub fn sweep<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> R + Sync,
    mut tell: impl FnMut(News<R>) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel::<(usize, R)>();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            let (sender, work, next, stop) = (sender.clone(), &work, &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || sender.send((index, work(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut turn = 0;
        let mut done = 0;
        'told: for (index, result) in &receiver {
            waiting.insert(index, result);
            done += 1;
            if tell(News::Count(done)).is_break() {
                break;
            }
            while let Some(result) = waiting.remove(&turn) {
                turn += 1;
                if tell(News::Done(turn - 1, result)).is_break() {
                    break 'told;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        // What is under way is finished and lost; nobody hears of it.
        drop(receiver);
    });
}

/// What went wrong inside a piece of work that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic(pub String);

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a panic is kept for [`guarded`] instead of being printed at once.
///
/// A panic inside a simulated task does not reach whoever started the run: without this it would go unnoticed.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
        let text = format!("{}{place}", message(info.payload()));
        // The first is the cause; others follow from it.
        LAST.with_borrow_mut(|last| last.get_or_insert(text).len());
    }));
}

/// Does `work`; a panic anywhere in this thread meanwhile is an error of this piece of work alone.
pub fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, Panic> {
    LAST.take();
    let result = catch_unwind(AssertUnwindSafe(work));
    match (result, LAST.take()) {
        (Ok(result), None) => Ok(result),
        (Ok(_), Some(text)) => Err(Panic(text)),
        (Err(payload), kept) => Err(Panic(kept.unwrap_or_else(|| message(&*payload)))),
    }
}

fn message(payload: &dyn Any) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(count: usize, threads: usize, stop_after: Option<usize>) -> Vec<usize> {
        let mut seen = Vec::new();
        sweep(
            count,
            threads,
            |index| {
                // Early pieces are the slow ones.
                (0..(count - index) * 2_000).fold(index, |sum, step| std::hint::black_box(sum ^ step));
                index * 10
            },
            |news| {
                if let News::Done(index, result) = news {
                    assert_eq!(result, index * 10);
                    seen.push(index);
                    if stop_after == Some(index) {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            },
        );
        seen
    }

    #[test]
    fn results_are_told_in_the_order_of_the_list_whichever_is_done_first() {
        for threads in [1, 2, 7] {
            assert_eq!(told(40, threads, None), (0..40).collect::<Vec<_>>());
        }
        assert_eq!(told(0, 2, None), Vec::<usize>::new());
    }

    #[test]
    fn after_breaking_off_nothing_more_is_told() {
        for threads in [1, 4] {
            assert_eq!(told(40, threads, Some(5)), (0..=5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_piece_of_work_that_panics_is_an_error_of_its_own() {
        let failed = guarded(|| panic!("no room for {}", 7)).unwrap_err();
        assert!(failed.0.contains("no room for 7"), "{failed:?}");
        assert_eq!(guarded(|| 7), Ok(7));
    }
}
