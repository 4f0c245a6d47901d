//! The actions besides a sync, one folder each. Each reads the cluster or Cloud Map, `adopt` and `purge` also write, and
//! it returns its answer as data that prints itself as text.

pub mod adopt;
pub mod doctor;
pub mod explain;
pub mod purge;
pub mod status;
