//! The exports of a clusterset as they stand in Cloud Map, and the one service that follows from all of them. Pure;
//! the export (`publish`) and the import use it.
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
