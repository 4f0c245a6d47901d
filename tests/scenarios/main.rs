//! Behaviour, through the real handler against the sandbox's servers. One test binary; a module per
//! behaviour. Every Cloud Map stand-in checks by itself that nothing foreign was touched, so each of
//! these tests is also a test of that.

use testbed as sandbox;

#[path = "../../src/publish/plan/tests/seeds.rs"]
#[allow(dead_code, reason = "shared with the properties of the plan")]
mod seeds;

mod accounts;
mod admin_alias;
mod adoption;
mod calls;
mod changes_that_fail;
mod cleanup;
mod clusters;
mod commands;
mod convergence;
mod creation;
mod cut_short;
mod dead_clusters;
mod deadlines;
mod discovery;
mod dns_rights;
mod doctor;
mod empty_services;
mod endpoints;
mod events;
mod explain;
mod fan_out;
mod faults;
mod first_sync;
mod fleet;
mod foreign;
mod foreign_operations;
mod forwarders;
mod guard;
mod harmful_tenant;
mod health;
mod health_checks;
mod health_reports;
mod identity;
mod interleaved;
mod levers;
mod limits;
mod logged;
mod logs;
mod long_runs;
mod many_namespaces;
mod marks;
mod metrics;
mod moved_clusters;
mod moves;
mod multi_cluster;
mod name_policy;
mod names;
mod namespaces;
mod new_namespaces;
mod one_pod;
mod operations;
mod order;
mod overlapping;
mod payloads;
mod policies;
mod ports;
mod purge;
mod queue;
mod quotas;
mod readiness;
mod records;
mod redelivery;
mod refusals;
mod rights;
mod run;
mod scale;
mod secrets;
mod service_settings;
mod service_suite;
mod services_made_again;
mod shared_names;
mod shared_namespaces;
mod shared_ttls;
mod status;
mod two_queues;
mod unread_services;
mod unreadable_cluster;
mod unreadable_registry;
mod weeks;
