//! The scenario file: one TOML file is one outage drill.
//!
//! [`types`] is what the rest of the harness works with. [`Scenario::read`] checks a file against the lists of keys
//! (one beside each reader), [`Scenario::resolve`] draws what is left open; [`schema`] is made from the same lists.
//! **Source:** scenario.md.

pub mod dist;
mod expect;
mod expect_text;
mod fault;
mod fault_keys;
mod load;
mod machine_fault;
mod read;
pub mod schema;
mod session_limit;
mod surroundings;
mod target;
pub mod types;
pub mod vocabulary;

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;

pub use dist::Dist;
pub use fault::DraftFault;
pub use read::Scenario;
pub use types::*;
