//! Keeps AWS Cloud Map in step with the annotated headless Services of EKS clusters.
//!
//! # One invocation
//!
//! ```text
//! Lambda payload ─> event ─> function ─────────────────────────────────────────────> answer
//!                               │ for each cluster                                     ▲
//!                               ├─> reconcile: connect ─> publish ─> Events            │
//!                               │     publish: observe ─> plan ─> groups + apply ─> report
//!                               │     then for each clusterset: publish exports ─> import into each member
//!                               └─> actions: a query or a purge, for a person ─> answer
//! ```
//!
//! # The modules
//!
//! Each row imports only from the rows below it. `tests/architecture.rs` checks this.
//!
//! | Module | Contents |
//! |---|---|
//! | [`function`] | one invocation: its clusters, scope, messages, answer and log |
//! | [`actions`] | the queries and purges of a person |
//! | [`reconcile`] | the run of one cluster: connect, publish, create Events |
//! | [`clients`] | every client, built once per process, by account and Region |
//! | [`settings`] | the settings, each checked once |
//! | [`publish`] | from Kubernetes to Cloud Map: the run of one cluster |
//! | [`publish::observe`], [`publish::apply`] | all reads of a run; one change by one call |
//! | [`import`] | from Cloud Map to Kubernetes: observes, plans and applies the objects of the imports of a cluster |
//! | [`publish::group`], [`publish::plan`] | pure: the sync of one group of Services; all rules of a plan |
//! | [`guard`] | pure: the rules against mass deletion, for instances and for imports |
//! | [`report`], [`event`] | pure: the report, its tables and metrics; the scope of a payload |
//! | [`clusterset`] | pure: the exports of a clusterset as attributes, and the service that is merged from them |
//! | [`cloud_map`], [`kubernetes`], [`eks`] | one outside system each, independent of each other and of the flows |
//! | [`connections`] | the order of the addresses of a name, and which connections are reused |
//! | [`model`], [`error`], [`time`] | the shared nouns; the chain of causes; clock and deadline |
//!
//! [`lambda`] is the process in Lambda's runtime. The kubectl plugin and the forwarder are separate programs in
//! `crates/`, and `crates/testbed` has the stand-ins of the tests. The function is built without them.
//!
//! # Glossary
//!
//! Kubernetes' and Cloud Map's own nouns keep their meaning: *Service* is Kubernetes', *Cloud Map service* and
//! *instance* are Cloud Map's.
//!
//! | Word | Meaning |
//! |---|---|
//! | registry | one account's Cloud Map in one Region |
//! | owner, marks | the installation, cluster and flow that an instance belongs to; the attributes that record them. An instance with our marks is *ours*, any other is *foreign* |
//! | flow | the source of instances: annotated Services, or exports |
//! | member, source, part | a cluster of a clusterset; where a run reads its exports: in the cluster itself if the function serves it, else in Cloud Map; the endpoints of one member in an import |
//! | export record, cluster record | an instance without an address, which describes an export or a member |
//! | claim, holder | the request of a Service for a name; the Service that has the name |
//! | full sync, targeted sync | the sync of all Services of a cluster; of the Services that a message or a person names |
//! | comparison, second look | the plan of all Services of a run; the plan of one group on a fresh read |
//! | group | the Services joined by a name that both claim or have instances under; most often one Service |
//! | permit | the permission of a run to remove or adopt an instance, given by the comparison that the guard has judged |
//! | surplus | an instance of ours that is to be removed, most often because no endpoint needs it |
//! | exchange | a new endpoint under the id of a surplus instance, if there is no capacity for both |
//! | held back | a request that a run does not carry out, with the reason; a retry does not help |
//! | loss | the instances of a cluster that a full sync would remove, or the endpoints that it would remove from the imports; the guard holds a loss that is too large |
//! | sighting, note | when a full sync first saw the loss of a Service, and how many instances it would have left; the sighting as stored on an instance of that Service |
//! | mirror | the last reads of one Cloud Map by this process; no change is made from it without a new read |

pub mod actions;
pub mod clients;
pub mod cloud_map;
pub mod clusterset;
pub mod connections;
pub mod eks;
pub mod error;
pub mod event;
pub mod function;
pub mod guard;
#[cfg(test)]
mod hostile;
pub mod import;
pub mod kubernetes;
pub mod lambda;
pub mod model;
pub mod publish;
pub mod reconcile;
pub mod report;
pub mod settings;
pub mod time;
