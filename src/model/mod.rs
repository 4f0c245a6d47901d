//! The shared nouns, pure data without a client: the desired state of a cluster ([`Desired`]), the content of Cloud Map
//! ([`Registry`]), the owner of an instance ([`Owner`] and the marks in its attributes), and the Services of an
//! invocation ([`Selection`]). `kubernetes` and `cloud_map` read into these types, and the plan compares them.

pub mod attributes;
mod cluster;
mod clusterset;
mod desired;
mod fate;
mod instance;
mod name;
mod notice;
mod object;
mod registry;
mod rules;
mod service;
mod verb;
pub(crate) mod words;

pub use attributes::Marks;
pub use cluster::*;
pub use clusterset::*;
pub use desired::*;
pub use fate::*;
pub use instance::*;
pub use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use name::*;
pub use notice::*;
pub use object::*;
pub use registry::*;
pub use rules::*;
pub use service::*;
pub use verb::*;
pub use words::{Documented, count_each, join, join_first, join_or};
pub(crate) use words::{display, words};
