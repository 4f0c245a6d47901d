//! The forwarder's binary on a real control plane: what it watches is kube-apiserver, the queue it sends to is the
//! sandbox's, and what comes out of that invokes the function's binary. `scene` runs it as its Deployment does, with
//! credentials of Pod Identity and a network that can be cut, and `story` is what happens.

mod scene;
mod story;
