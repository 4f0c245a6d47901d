//! What clients send to a cluster with the Multi-Cluster Services API, and what they are answered.

mod admission;
mod apply;
mod client;
mod create;
mod delete;
mod over_tls;
mod patch;
mod schema;
mod served;
mod services;
mod slices;
