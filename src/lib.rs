//! Keeps AWS Cloud Map in step with the annotated headless Services of EKS clusters.
//!
//! One invocation, and where its parts live:
//!
//! ```text
//! Lambda payload ─> event ─> handler ─────────────────────────────────────────> answer
//!                              │ for each cluster                               ▲
//!                              └> reconcile: observe ─> plan ─> apply ─> report ┘
//!                                             │          │        │
//!                    kubernetes <─────────────┤        (pure)     └─────────> cloud_map
//!                    eks        <─────────────┴──────────────────────────────> (reads)
//! ```
//!
//! - [`event`], [`plan`], [`passes`], [`model`], [`report`] are pure: no client, clock or log.
//! - [`eks`], [`kubernetes`], [`cloud_map`] each know one outside system, and not each other.
//! - [`observe`] only reads, [`apply`] only does what a plan says, in [`passes`]. [`empty_services`] does both once
//!   more, for what belongs to no cluster.
//! - [`settings`], [`clients`], [`clock`] and [`deadline`] are what an invocation is given; [`start`] reads
//!   the settings, some from the [`parameter_store`]; [`lambda`] is what Lambda sees of the process.
//! - [`forwarder`] is a second program, for the clusters, and [`cli`] a third, for terminals; the function
//!   is built without them.

pub mod actions;
pub mod apply;
#[cfg(feature = "cli")]
pub mod cli;
pub mod clients;
pub mod clock;
pub mod cloud_map;
pub mod deadline;
pub mod eks;
pub mod empty_services;
pub mod error;
pub mod event;
#[cfg(feature = "forwarder")]
pub mod forwarder;
pub mod handler;
pub mod kubernetes;
pub mod lambda;
pub mod model;
pub mod observe;
pub mod orphans;
pub mod own_queue;
pub mod parameter_store;
pub mod passes;
pub mod plan;
pub mod publish;
pub mod reconcile;
pub mod report;
pub mod settings;
pub mod start;
