//! Behaviour, through the real handler against the sandbox's servers. One test binary; a module per
//! behaviour. Every Cloud Map stand-in checks by itself that nothing foreign was touched, so each of
//! these tests is also a test of that.

#[path = "../sandbox/mod.rs"]
#[allow(dead_code, reason = "shared with the sandbox command, which uses other parts")]
mod sandbox;

mod fleet;
mod run;

mod convergence;
mod creation;
mod endpoints;
mod first_sync;
mod foreign;
mod identity;
mod marks;
mod names;
mod namespaces;
mod ports;
mod records;
