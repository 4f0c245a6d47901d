//! The conversion of Kubernetes objects, from the JSON of an API server, and the meaning of its refusals.

mod desired;
mod endpoints;
mod refusals;
