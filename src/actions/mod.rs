//! The actions besides a sync. Each reads the cluster or Cloud Map, `adopt` and `purge` (`ownership`) also write, and it
//! returns its answer as data that prints itself as text.

mod check;
pub mod doctor;
pub mod explain;
pub mod ownership;
pub mod status;

pub use check::{Check, CheckOutcome};
