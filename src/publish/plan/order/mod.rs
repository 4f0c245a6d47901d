//! In what order a plan is carried out so that no name goes empty: what must be seen before an instance
//! of ours goes (`removal`, with `new_name` for a renamed Service), and which Services take a turn together
//! (`turns`, by `disjoint_sets`).

mod disjoint_sets;
pub mod new_name;
pub mod removal;
pub mod turns;
