//! The order in which a plan is carried out so that no name becomes empty: the condition for each removal of an
//! instance of ours (`removal`, with `new_name` for a renamed Service), and the Services that take a turn together
//! (`turns`, by `disjoint_sets`).

mod disjoint_sets;
pub mod new_name;
pub mod removal;
pub mod turns;
