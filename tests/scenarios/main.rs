//! Behaviour, through the real handler against the sandbox's servers. One test binary; a module per
//! behaviour. Every Cloud Map stand-in checks by itself that nothing foreign was touched, so each of
//! these tests is also a test of that.

mod adoption;
mod calls;
mod changes_first;
mod clusters;
mod commands;
mod connections;
mod dns_rights;
mod doctor;
mod endpoints;
mod events;
mod explain;
mod fleet;
mod forwarders;
mod guard;
mod harmful_tenant;
mod health;
mod limits;
mod logged;
mod logs;
mod long_runs;
mod metrics;
mod multi_cluster;
mod namespaces;
mod neighbours;
mod new_namespaces;
mod one_sentence;
mod one_sync;
mod order;
mod orphans;
mod purge;
mod queue;
mod read_budget;
mod refusals;
mod rights;
mod rotation;
mod run;
mod scale;
mod service_suite;
mod settings_of_services;
mod standing_lists;
mod unread_services;
mod worlds;
