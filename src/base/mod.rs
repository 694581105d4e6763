//! Values only: times, levels, names, rules. Nothing here reads a clock, a file or a socket.
//!
//! Every other part of the engine may import this module; it imports nothing.

pub mod level;
pub mod name;
pub mod notice;
pub mod outcome;
pub mod rules;
pub mod time;
pub mod work;

pub use level::{Axis, AxisLevels, Level};
pub use name::EntryName;
pub use notice::{NoticePart, NoticeWhat};
pub use outcome::{CallOutcome, Outcome};
pub use rules::Rules;
pub use time::{MonoTime, Span, WallTime};
pub use work::{CallClass, ItemStatus, Policy, SessionClass, SessionOutcome};
