//! The actions besides a sync, one folder each. Each reads the cluster or Cloud Map, `purge` also writes, and returns
//! its answer as data that prints itself as text.

mod age;
pub mod doctor;
pub mod explain;
pub mod purge;
pub mod status;
