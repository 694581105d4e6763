//! SESSION-1: the session budget, judged against a model of our own and against what really ran.

mod budget;
mod truth;
mod waiting;

pub use budget::Budget;
