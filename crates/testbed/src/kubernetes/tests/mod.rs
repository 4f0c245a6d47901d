//! What clients send to a cluster with the Multi-Cluster Services API, and what they are answered.

mod apply;
mod client;
mod create;
mod delete;
mod patch;
mod served;
