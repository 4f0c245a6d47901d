//! From Cloud Map into Kubernetes: the clusterset services of a namespace as ServiceImports, each with a derived Service
//! that has its virtual IP, and with EndpointSlices.
//!
//! ```text
//! exports of all members ─> clusterset: merge ─> plan ─> changes in order ─> API server of the importing cluster
//! objects of the import ─────────────────────────┘
//! ```
//!
//! [`plan`] decides for one importing cluster and one name. It is pure: nothing here reads or writes.

pub mod plan;
