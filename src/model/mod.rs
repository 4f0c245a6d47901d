//! The shared nouns, pure data without a client: the desired state of a cluster ([`Desired`]), the content of Cloud Map
//! ([`Registry`]), the owner of an instance ([`Owner`] and the marks in its attributes), and the Services of an
//! invocation ([`Selection`]). `kubernetes` and `cloud_map` read into these types, and the plan compares them.

pub mod attributes;
mod cluster;
mod clusterset;
mod desired;
mod instance;
mod line;
mod name;
mod object;
mod registry;
mod rules;
mod service;
mod words;

pub use attributes::Marks;
pub use cluster::*;
pub use clusterset::*;
pub use desired::*;
pub use instance::*;
pub use k8s_openapi::jiff::{SignedDuration, Timestamp};
pub use line::*;
pub use name::*;
pub use object::*;
pub use registry::*;
pub use rules::*;
pub use service::*;
pub use words::*;
