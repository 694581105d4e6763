//! The walk of a call through its chain: laws that hold whatever the entries say.

use proptest::prelude::*;
use squall::base::{CallClass, CallOutcome, EntryName, MonoTime, Outcome, Rules, Span};
use squall::chain::{EntryView, Step, Walk};

/// Two models of one provider, then two providers.
const ENTRIES: [&str; 4] = ["a/m", "a/n", "b", "c"];

/// How the gates stand before a step, and what comes of the attempt if there is one.
#[derive(Clone, Debug)]
struct Draw {
    views: [EntryView; 4],
    outcome: Outcome,
    hint: Option<Time>,
    takes: Time,
    token: bool,
}

/// So long, or as long as the deadline is away, and so much more or less.
#[derive(Clone, Copy, Debug)]
enum Time {
    Ms(u64),
    ToDeadline(i64),
}

impl Time {
    fn ms(self, now: u64, deadline: u64) -> u64 {
        match self {
            Time::Ms(ms) => ms,
            Time::ToDeadline(more) => deadline.saturating_add_signed(more).saturating_sub(now),
        }
    }
}

fn any_time(usual: std::ops::Range<u64>) -> impl Strategy<Value = Time> {
    prop_oneof![20 => usual.prop_map(Time::Ms), 1 => (-1..=1_i64).prop_map(Time::ToDeadline)]
}

fn any_draw() -> impl Strategy<Value = Draw> {
    let admits = EntryView { admits: true, earliest: None, probe_in_slot: false };
    let refuses = (proptest::option::of(0..500_000_u64), any::<bool>()).prop_map(|(earliest, probe_in_slot)| {
        EntryView { admits: false, earliest: earliest.map(MonoTime), probe_in_slot }
    });
    // The last entry comes and goes more often.
    let view = |well: u32| prop_oneof![well => Just(admits), 2 => refuses.clone()];
    use Outcome::{
        BadKey, CallersFault, Cancelled, Overloaded, ProviderFault, Quota, Refused, Success, Throttled, Unfit,
    };
    let outcome = proptest::sample::select(vec![
        ProviderFault,
        ProviderFault,
        ProviderFault,
        Overloaded,
        Overloaded,
        Throttled,
        Quota,
        BadKey,
        Unfit,
        Refused,
        Success,
        CallersFault,
        Cancelled,
    ]);
    let hint = proptest::option::weighted(0.2, any_time(0..30_000));
    ([view(9), view(9), view(9), view(1)], outcome, hint, any_time(0..4_000), proptest::bool::weighted(0.03))
        .prop_map(|(views, outcome, hint, takes, token)| Draw { views, outcome, hint, takes, token })
}

/// What is known of one entry in this call.
#[derive(Clone, Copy, Default)]
struct Visit {
    asked: bool,
    sent: u32,
    overloaded: u32,
    /// Since its last attempt ended: the earliest time of another, if there may be one.
    again_from: Option<u64>,
}

fn walk_by_its_laws(class: CallClass, draws: &[Draw]) -> Result<(), TestCaseError> {
    let rules = Rules::default();
    let names = ENTRIES.map(EntryName::new);
    let mut walk = Walk::new(class, names.to_vec(), MonoTime(0), &rules.call, &rules.retry);
    let deadline = rules.call.deadline.ms();
    let entry_max = if class == CallClass::Foreground { 2 } else { 4 };
    let mut visits = [Visit::default(); 4];
    let (mut now, mut sent) = (0, 0_u32);
    for Draw { views, outcome, hint, takes, token } in draws {
        let takes = takes.ms(now, deadline);
        match walk.next(MonoTime(now), views) {
            Step::Try { index, retry } => {
                let visit = visits[index];
                let provider = names[index].provider();
                let known = (0..4).any(|other| visits[other].sent > 0 && names[other].provider() == provider);
                prop_assert_eq!(retry, known, "a retry is a second attempt at a provider");
                prop_assert!(views[index].admits, "who does not admit is not asked");
                prop_assert!(now < deadline, "nothing is asked at the deadline");
                prop_assert!(sent < 6 && visit.sent < entry_max, "attempts have limits");
                if visit.asked {
                    let from = visit.again_from;
                    prop_assert!(from.is_some_and(|from| now >= from), "asked again at {now}, not from {from:?} on");
                    let fresh = (0..4).filter(|other| views[*other].admits && !visits[*other].asked).count();
                    prop_assert!((6 - sent) as usize > fresh, "each further admitting entry keeps one attempt");
                } else {
                    let passed_over = (0..index).any(|earlier| views[earlier].admits && !visits[earlier].asked);
                    prop_assert!(!passed_over, "the first that admits is asked");
                }
                let visit = &mut visits[index];
                visit.asked = true;
                if *outcome != Outcome::Refused {
                    sent += 1;
                    visit.sent += 1;
                }
                now += takes;
                let hint = hint.map(|hint| hint.ms(now, deadline));
                if *token {
                    walk.answer_started();
                }
                walk.settled(index, *outcome, hint.map(Span::from_ms), MonoTime(now), 0.0);
                visit.overloaded += u32::from(*outcome == Outcome::Overloaded);
                let overloaded_again = *outcome == Outcome::Overloaded && visit.overloaded > 1;
                let retried = outcome.is_failure() && !overloaded_again;
                let backoff = 500 << (visit.sent.max(1) - 1);
                visit.again_from = retried.then_some(now + hint.unwrap_or(0).max(backoff));
                if *token {
                    let complete = *outcome == Outcome::Success;
                    let came_to = if complete { CallOutcome::Ok } else { CallOutcome::Truncated };
                    prop_assert_eq!(walk.next(MonoTime(now), views), Step::Ended);
                    prop_assert_eq!(walk.outcome(), came_to, "after the first token nobody else is tried");
                    return Ok(());
                }
            }
            Step::Wait { index, until } => {
                prop_assert!(until.ms() > now && until.ms() < deadline, "a wait has a length and fits the deadline");
                prop_assert_eq!(Some(until.ms()), visits[index].again_from);
                now = until.ms();
            }
            Step::AwaitProbe { index, until } => {
                prop_assert!(class == CallClass::Foreground && views[index].probe_in_slot);
                let free = (0..4).any(|other| views[other].admits && !visits[other].asked);
                prop_assert!(!free, "nobody waits for a probe while an entry admits");
                prop_assert_eq!(until.ms(), deadline);
                now += takes;
            }
            Step::Exhausted { earliest } => {
                let soonest = views.iter().filter_map(|view| match view.admits {
                    true => Some(MonoTime(now)),
                    false => view.earliest,
                });
                prop_assert_eq!(earliest, soonest.min());
                let free = (0..4).any(|other| views[other].admits && !visits[other].asked);
                prop_assert!(!free || now >= deadline || sent == 6, "while one is left to ask, it is asked");
                let came_to = if sent == 0 { CallOutcome::Refused } else { CallOutcome::Failed };
                prop_assert_eq!(walk.outcome(), came_to);
                return Ok(());
            }
            Step::Ended => {
                prop_assert!(matches!(walk.outcome(), CallOutcome::Ok | CallOutcome::Failed));
                prop_assert_eq!(walk.attempts(), sent);
                return Ok(());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_walk_keeps_its_laws(
        class in proptest::sample::select(vec![CallClass::Foreground, CallClass::Background]),
        draws in proptest::collection::vec(any_draw(), 1..60),
    ) {
        walk_by_its_laws(class, &draws)?;
    }
}
