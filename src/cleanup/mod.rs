//! The cleanup after all clusters were read, by a full sync or by the action `cleanup` (`claims`): orphans, the instances
//! of clusters that are gone or no longer configured (`dead_clusters`, `existences`), and our empty Cloud Map services
//! (`empty_services`).

mod claims;
pub mod dead_clusters;
mod empty_services;
pub mod existences;
