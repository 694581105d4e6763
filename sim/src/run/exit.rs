//! What the process says with its exit code.
//!
//! Of several runs the worst wins, in the order: internal error, not deterministic, usage, broken, inconclusive, held.
//! A tool that failed, or that can't be trusted, says nothing about the engine, so that comes first.
//! **Source:** harness.md "Commands".

/// Ordered from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    #[default]
    Held,
    Inconclusive,
    Broken,
    Usage,
    NotDeterministic,
    Internal,
}

impl Exit {
    pub const ALL: [Exit; 6] =
        [Exit::Held, Exit::Inconclusive, Exit::Broken, Exit::Usage, Exit::NotDeterministic, Exit::Internal];

    pub const fn code(self) -> u8 {
        match self {
            Exit::Held => 0,
            Exit::Broken => 1,
            Exit::Usage => 2,
            Exit::Inconclusive => 3,
            Exit::NotDeterministic => 4,
            Exit::Internal => 70,
        }
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Held => "all held",
            Exit::Broken => "an invariant or an expectation is broken",
            Exit::Usage => "usage or scenario error; nothing was run",
            Exit::Inconclusive => "did not converge in time, or a required invariant saw nothing",
            Exit::NotDeterministic => "a run did not equal itself",
            Exit::Internal => "internal error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_runs_wins() {
        assert_eq!([Exit::Broken, Exit::Held, Exit::Inconclusive].into_iter().max(), Some(Exit::Broken));
        assert_eq!([Exit::Broken, Exit::Internal, Exit::NotDeterministic].into_iter().max(), Some(Exit::Internal));
        assert_eq!([Exit::Broken, Exit::NotDeterministic].into_iter().max(), Some(Exit::NotDeterministic));
    }
}
