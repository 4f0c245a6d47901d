//! The cleanup after a full sync of all clusters: orphans, the instances of clusters that are gone or no longer
//! configured (`dead_clusters`), and our empty Cloud Map services (`empty_services`).

pub mod dead_clusters;
mod empty_services;
