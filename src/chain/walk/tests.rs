//! The walk by example.

use super::*;

const OPEN: EntryView = EntryView { admits: true, earliest: None, probe_in_slot: false };
const SHUT: EntryView = EntryView { admits: false, earliest: Some(MonoTime(77_000)), probe_in_slot: false };
const PROBED: EntryView = EntryView { admits: false, earliest: Some(MonoTime(5_000)), probe_in_slot: true };

fn walk(class: CallClass, entries: &[&str]) -> Walk {
    let entries = entries.iter().map(|entry| EntryName::new(entry)).collect();
    Walk::new(class, entries, MonoTime(0), &CallRules::default(), &RetryRules::default())
}

/// Walks until it is over; every attempt ends as `outcome` says, at once. Returns the entries asked, and the end.
fn run(mut walk: Walk, views: &[EntryView], outcome: impl Fn(usize) -> Outcome) -> (Vec<usize>, CallOutcome, MonoTime) {
    let (mut asked, mut now) = (Vec::new(), MonoTime(0));
    loop {
        match walk.next(now, views) {
            Step::Try { index, retry: _ } => {
                asked.push(index);
                walk.settled(index, outcome(index), None, now, 0.0);
            }
            Step::Wait { index: _, until } => {
                assert!(until > now);
                now = until;
            }
            Step::AwaitProbe { .. } | Step::Exhausted { .. } | Step::Ended => {
                return (asked, walk.outcome(), now);
            }
        }
    }
}

#[test]
fn the_first_entry_that_admits_is_asked() {
    let (asked, outcome, _) = run(walk(CallClass::Foreground, &["a", "b"]), &[SHUT, OPEN], |_| Outcome::Success);
    assert_eq!((asked, outcome), (vec![1], CallOutcome::Ok));
}

#[test]
fn a_provider_fault_is_tried_twice_here_and_then_at_the_next() {
    let (asked, outcome, now) =
        run(walk(CallClass::Foreground, &["a", "b"]), &[OPEN, OPEN], |_| Outcome::ProviderFault);
    assert_eq!((asked, outcome), (vec![0, 0, 1, 1], CallOutcome::Failed));
    assert_eq!(now, MonoTime(1_000), "half a second before each retry, none before the next entry");
}

#[test]
fn a_background_call_is_tried_four_times_per_entry_and_six_times_in_all() {
    let fault = |_| Outcome::ProviderFault;
    let (asked, ..) = run(walk(CallClass::Background, &["a"]), &[OPEN], fault);
    assert_eq!(asked, [0; 4]);
    let (asked, ..) = run(walk(CallClass::Background, &["a", "b"]), &[OPEN; 2], fault);
    assert_eq!(asked, [0, 0, 0, 0, 1, 1]);
}

#[test]
fn each_further_admitting_entry_keeps_one_attempt() {
    let fault = |_| Outcome::ProviderFault;
    let (asked, ..) = run(walk(CallClass::Background, &["a", "b", "c", "d"]), &[OPEN; 4], fault);
    assert_eq!(asked, [0, 0, 0, 1, 2, 3]);
    let (asked, ..) = run(walk(CallClass::Background, &["a", "b", "c", "d"]), &[OPEN, SHUT, SHUT, OPEN], fault);
    assert_eq!(asked, [0, 0, 0, 0, 3, 3], "one that does not admit keeps none");
    let (asked, ..) = run(walk(CallClass::Foreground, &["a", "b", "c", "d", "e", "f", "g"]), &[OPEN; 7], fault);
    assert_eq!(asked, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn what_each_outcome_means_for_the_walk() {
    use Outcome::*;
    for (outcome, expected) in [
        (Success, vec![0]),
        (ProviderFault, vec![0, 0, 1, 1]),
        (Overloaded, vec![0, 0, 1, 1]),
        (Throttled, vec![0, 1]),
        (Quota, vec![0, 1]),
        (BadKey, vec![0, 1]),
        (CallersFault, vec![0]),
        (Unfit, vec![0, 1]),
        (Refused, vec![0, 1]),
        (Cancelled, vec![0]),
    ] {
        let (asked, ..) = run(walk(CallClass::Foreground, &["a", "b"]), &[OPEN, OPEN], |_| outcome);
        assert_eq!(asked, expected, "{outcome:?}");
    }
    let (asked, ..) = run(walk(CallClass::Background, &["a"]), &[OPEN], |_| Overloaded);
    assert_eq!(asked, [0, 0], "overloaded is retried once, whatever the class");
}

#[test]
fn an_attempt_refused_before_it_was_sent_is_no_attempt() {
    let mut walk = walk(CallClass::Foreground, &["a"]);
    assert_eq!(walk.next(MonoTime(0), &[OPEN]), Step::Try { index: 0, retry: false });
    walk.settled(0, Outcome::Refused, None, MonoTime(0), 0.0);
    assert_eq!(walk.next(MonoTime(0), &[SHUT]), Step::Exhausted { earliest: Some(MonoTime(77_000)) });
    assert_eq!((walk.attempts(), walk.outcome()), (0, CallOutcome::Refused));
}

#[test]
fn a_wait_that_does_not_fit_the_deadline_is_not_slept() {
    for (hint_ms, waits) in [(119_999, true), (120_000, false)] {
        let mut walk = walk(CallClass::Foreground, &["a"]);
        walk.next(MonoTime(0), &[OPEN]);
        walk.settled(0, Outcome::ProviderFault, Some(Span::from_ms(hint_ms)), MonoTime(0), 0.5);
        let step = walk.next(MonoTime(0), &[OPEN]);
        assert_eq!(step == Step::Wait { index: 0, until: MonoTime(hint_ms) }, waits, "{hint_ms}: {step:?}");
    }
}

#[test]
fn nothing_is_asked_at_the_deadline() {
    let mut late = walk(CallClass::Foreground, &["a"]);
    assert_eq!(late.next(MonoTime(120_000), &[OPEN]), Step::Exhausted { earliest: Some(MonoTime(120_000)) });
    assert_eq!(
        walk(CallClass::Foreground, &["a"]).next(MonoTime(119_999), &[OPEN]),
        Step::Try { index: 0, retry: false }
    );
}

#[test]
fn after_the_first_token_no_other_entry_is_tried() {
    let mut walk = walk(CallClass::Foreground, &["a", "b"]);
    walk.next(MonoTime(0), &[OPEN; 2]);
    walk.answer_started();
    walk.settled(0, Outcome::ProviderFault, None, MonoTime(400_000), 0.0);
    assert_eq!(walk.next(MonoTime(400_000), &[OPEN; 2]), Step::Ended);
    assert_eq!(walk.outcome(), CallOutcome::Truncated);
}

#[test]
fn only_foreground_waits_for_a_probe_and_only_if_nothing_else_admits() {
    let until = MonoTime(120_000);
    let fresh = |class| walk(class, &["a", "b"]);
    assert_eq!(fresh(CallClass::Foreground).next(MonoTime(0), &[PROBED, SHUT]), Step::AwaitProbe { index: 0, until });
    assert_eq!(
        fresh(CallClass::Background).next(MonoTime(0), &[PROBED, SHUT]),
        Step::Exhausted { earliest: Some(MonoTime(5_000)) }
    );
    assert_eq!(fresh(CallClass::Foreground).next(MonoTime(0), &[PROBED, OPEN]), Step::Try { index: 1, retry: false });
}

#[test]
fn a_second_model_of_the_same_provider_is_a_retry_at_that_provider() {
    let mut walk = walk(CallClass::Foreground, &["p/a", "p/b", "q"]);
    walk.next(MonoTime(0), &[OPEN; 3]);
    walk.settled(0, Outcome::Throttled, None, MonoTime(0), 0.0);
    assert_eq!(walk.next(MonoTime(0), &[OPEN; 3]), Step::Try { index: 1, retry: true });
    walk.settled(1, Outcome::Throttled, None, MonoTime(0), 0.0);
    assert_eq!(walk.next(MonoTime(0), &[OPEN; 3]), Step::Try { index: 2, retry: false });
}

#[test]
fn an_entry_that_stops_admitting_during_the_wait_is_left() {
    let mut walk = walk(CallClass::Foreground, &["a", "b"]);
    walk.next(MonoTime(0), &[OPEN; 2]);
    walk.settled(0, Outcome::ProviderFault, None, MonoTime(0), 0.0);
    assert_eq!(walk.next(MonoTime(0), &[OPEN; 2]), Step::Wait { index: 0, until: MonoTime(500) });
    assert_eq!(walk.next(MonoTime(500), &[SHUT, OPEN]), Step::Try { index: 1, retry: false });
}

#[test]
fn the_earliest_time_of_an_exhausted_chain_is_that_of_its_first_entry_to_work() {
    let never = EntryView { admits: false, earliest: None, probe_in_slot: false };
    let soon = EntryView { admits: false, earliest: Some(MonoTime(9_000)), probe_in_slot: false };
    let mut walk = walk(CallClass::Background, &["a", "b", "c"]);
    assert_eq!(walk.next(MonoTime(0), &[never, SHUT, soon]), Step::Exhausted { earliest: Some(MonoTime(9_000)) });
}
