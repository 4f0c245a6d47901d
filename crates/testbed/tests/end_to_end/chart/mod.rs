//! The forwarder as people install it. Helm and kustomize (`tools`) render the chart and the base: `refusals` is a table
//! of the values that the chart refuses, each in one line, `drift` compares the two ways, `install` plays the life of a
//! release on a real control plane, and `gitops` is what Argo CD and Flux make of them.

mod drift;
mod gitops;
mod install;
mod refusals;
pub mod tools;
