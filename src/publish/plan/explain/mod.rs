//! Describes a plan or a registry for people, and decides nothing: the state of each endpoint (`fate`), the owners of
//! the instances in each service (`party`), and the largest number of instances during a run (`peaks`).

pub mod fate;
pub mod party;
pub mod peaks;
