//! Every path of so many steps from the beginning, states seen before left out.

use std::collections::BTreeSet;
use std::fmt::Debug;

/// A machine under test together with what judges it.
pub trait Subject {
    type Step: Clone + Debug;

    /// What can happen next, each at an instant of its own.
    fn steps(&self) -> Vec<Self::Step>;

    /// **Errors:** what the machine did wrong.
    fn take(&mut self, step: &Self::Step) -> Result<(), String>;

    fn fingerprint(&self) -> u64;
}

/// Takes every path of at most `depth` steps, and has to meet more than `states_min` states. Machines hand out things
/// that cannot be copied, so a path is gone again from its beginning for each of its continuations.
pub fn exhaust<S: Subject>(begin: impl Fn() -> S, depth: usize, states_min: usize) {
    let again = |path: &[S::Step]| {
        let mut subject = begin();
        for step in path {
            subject.take(step).expect("this path was taken before");
        }
        subject
    };
    let mut seen = BTreeSet::from([begin().fingerprint()]);
    let mut steps = 0;
    let mut edge: Vec<Vec<S::Step>> = vec![Vec::new()];
    for _ in 0..depth {
        let mut next = Vec::new();
        for path in &edge {
            for step in again(path).steps() {
                let mut subject = again(path);
                let mut longer = path.clone();
                longer.push(step);
                steps += 1;
                if let Err(wrong) = subject.take(&longer[path.len()]) {
                    panic!("{wrong}\nafter {longer:#?}");
                }
                if seen.insert(subject.fingerprint()) {
                    next.push(longer);
                }
            }
        }
        edge = next;
    }
    eprintln!("{} states, {steps} steps", seen.len());
    assert!(seen.len() > states_min, "only {} states in {steps} steps: something is never reached", seen.len());
}
