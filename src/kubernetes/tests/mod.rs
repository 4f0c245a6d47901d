//! Kubernetes objects as an API server writes them, and what is made of them.

mod desired;
mod endpoints;
