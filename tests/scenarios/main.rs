//! Behaviour, through the real handler against the sandbox's servers. One test binary; a module per
//! behaviour. Every Cloud Map stand-in checks by itself that nothing foreign was touched, so each of
//! these tests is also a test of that.

#[path = "../../src/publish/plan/tests/seeds.rs"]
#[allow(dead_code, reason = "shared with the properties of the plan")]
mod seeds;

mod accounts;
mod admin_alias;
mod adoption;
mod calls;
mod changes_first;
mod changes_that_fail;
mod cleanup;
mod clusters;
mod commands;
mod dead_clusters;
mod deadlines;
mod dns_rights;
mod doctor;
mod drift;
mod empty_services;
mod endpoints;
mod events;
mod explain;
mod fan_out;
mod fleet;
mod foreign_operations;
mod forwarders;
mod guard;
mod harmful_tenant;
mod health;
mod health_checks;
mod health_reports;
mod limits;
mod lists_by_turns;
mod logged;
mod logs;
mod long_runs;
mod many_namespaces;
mod metrics;
mod moved_clusters;
mod moves;
mod multi_cluster;
mod name_policy;
mod namespaces_of_one_name;
mod new_namespaces;
mod payloads;
mod policies;
mod purge;
mod queue;
mod quotas;
mod read_budget;
mod redelivery;
mod refusals;
mod refused_again;
mod rights;
mod run;
mod scale;
mod secrets;
mod service_settings;
mod service_suite;
mod services_made_again;
mod shared_namespaces;
mod status;
mod two_queues;
mod unread_services;
mod unreadable_cluster;
mod unreadable_registry;
mod worlds;
