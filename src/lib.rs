//! Keeps AWS Cloud Map in step with the annotated headless Services of EKS clusters.
pub mod apply;
pub mod clients;
pub mod cloud_map;
pub mod deadline;
pub mod eks;
pub mod event;
pub mod handler;
pub mod kubernetes;
pub mod model;
pub mod observe;
pub mod plan;
pub mod reconcile;
pub mod report;
pub mod settings;
