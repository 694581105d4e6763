//! The advisory on recalls: given when the dense path is measured to be out, and the right text to each client.

mod forms;
mod states;

pub use forms::Forms;
pub use states::States;
