//! Actions that a person asks for and that sync nothing, one folder each: what is read and done, and the answer as data
//! and as text.

pub mod doctor;
pub mod explain;
pub mod purge;
pub mod status;
