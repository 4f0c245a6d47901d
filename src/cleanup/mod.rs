//! Orphans: the instances of clusters that are gone or no longer configured (`dead_clusters`).

pub mod dead_clusters;
