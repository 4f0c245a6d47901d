//! The exports of a clusterset as Cloud Map stores them, and the service that each member merges from them. Pure; used
//! by the exporting side (`publish`) and the importing side (`import`).
//!
//! ```text
//! Service + ServiceExport ──> record, attributes ──> Cloud Map ──> record, attributes ──> merge ──> ServiceImport
//!                                                                                          └──> conditions
//! ```

#[cfg(test)]
mod arbitrary;
pub mod attributes;
pub mod conditions;
pub mod departures;
pub mod id;
#[cfg(test)]
pub mod limits;
pub mod members;
pub mod merge;
pub mod record;
