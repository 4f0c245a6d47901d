//! The conversion of Kubernetes objects, from the JSON of an API server.

mod desired;
mod endpoints;
