//! What a user asks of a trace, apart from how the answer is shown.
//!
//! ```text
//!   question                answer
//!   comparison::Asked  ->   Comparison    policies × sizes
//!   curves::Asked      ->   Curves        miss ratios by size
//!   levels::Asked      ->   Levels        hierarchies of caches
//!   suggestion::Asked  ->   Suggestion    managers that suit a trace
//!   analysis::Asked    ->   Analysis      what a trace is like
//!   experiment::Plan   ->   Table         figures of commands beside printed ones
//!   explain::Asked     ->   Explanation   what a policy keeps, step by step
//! ```
//!
//! A figure is declared once, in [`figures`]. [`forms`] makes CSV and JSON of them; the command line, reports and other programs show answers by these declarations,
//! and with the words of [`advice`].

pub mod advice;
pub mod analysis;
mod analysis_forms;
mod asked;
mod bends;
mod check;
mod choice;
pub mod comparison;
pub mod curves;
mod elsewhere;
pub mod error;
pub mod experiment;
pub mod explain;
pub mod figure;
pub mod figures;
pub mod forms;
pub mod info;
pub mod kernel;
pub mod levels;
pub mod monitor;
pub mod reach;
mod recorded;
mod sampling;
pub mod suggestion;

pub use crate::analysis::Analysis;
pub use crate::words::{Times, counted, grouped, percent, significant};
pub use comparison::Comparison;
pub use curves::Curves;
pub use error::Error;
pub use explain::Explanation;
pub use figure::{Column, Figure, Figures, Unit};
pub use forms::Answer;
pub use levels::Levels;
pub use monitor::{Monitor, Progress};
pub use suggestion::Suggestion;
