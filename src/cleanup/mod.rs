//! After all clusters of a full sync: the instances that clusters left behind which are gone or not configured any more
//! (`dead_clusters`), and the Cloud Map services of ours that nothing needs (`empty_services`).

pub mod dead_clusters;
mod empty_services;
