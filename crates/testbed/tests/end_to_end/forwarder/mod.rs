//! The forwarder's binary on a real control plane: what it watches is kube-apiserver, the queue it
//! sends to is the sandbox's, and what comes out of that invokes the function's binary. `process` runs
//! it as its Deployment does, with credentials from `pod_identity`; `relay` is the network between it
//! and the API server. `scene` puts them together, `story` is what happens.

mod pod_identity;
mod process;
mod relay;
mod scene;
mod story;
