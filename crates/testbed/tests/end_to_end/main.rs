//! The real binaries, end to end. `lambda` runs the function as Lambda starts it, against the Lambda runtime API of
//! the testbed; its AWS is the sandbox's, whose Cloud Map stand-in checks after every call that nothing foreign was
//! touched (`world`). `cold_start`, a part of `log` and `kubectl_cloudmap` need no more than that;
//! `story`, `rules`, `readiness`, the audit log in `log`, `multi_cluster`, `recorded_writes` and `forwarder` put a
//! real Kubernetes control plane in the place of the sandbox's (`real_cluster`, `control_plane`), and are skipped
//! where there is none to be had, but not in CI. `conformance` runs another project's suite there. `chart` installs
//! the forwarder as people do, and `commands` runs what the pages say.

mod admission;
mod chart;
mod cold_start;
mod commands;
mod conformance;
mod control_plane;
mod forwarder;
mod kubectl_cloudmap;
mod lambda;
mod log;
mod multi_cluster;
mod readiness;
mod real_cluster;
mod recorded_writes;
mod rules;
mod story;
mod world;
