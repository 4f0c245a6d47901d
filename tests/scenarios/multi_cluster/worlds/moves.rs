//! The moves of a story: everything that changes besides Services, their pods and their exports. Each is made at its
//! time, in milliseconds from the moment at which trouble begins, and ends at the latest when the story comes to rest.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::play::Stage;
use super::story::NAMES;
use crate::multi_cluster::CLUSTERSET;
use testbed::cloud_map::{NamespaceKind, ServiceKind};

const OTHER_ACCOUNT: &str = "444455556666";

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    /// A person deletes a ServiceImport, and its objects go with it.
    DeleteImport(&'static str, &'static str),
    /// A person writes other ports and another session affinity into a ServiceImport.
    EditImport(&'static str, &'static str),
    /// A person deletes the derived Service of an import.
    DeleteDerived(&'static str, &'static str),
    /// The definitions of exports and imports leave a cluster.
    RemoveApis(&'static str),
    /// They are there again, and so are the objects.
    RestoreApis(&'static str),
    /// Another account shares a second namespace of the clusterset's name, in which a member has an empty service.
    ShareSecondNamespace(&'static str),
    /// The lists of Cloud Map count no instance in the services of a namespace.
    Uncount(&'static str),
    /// They count them again.
    Count,
}

/// Moves at their times. Without records there is nothing by which the right one of two namespaces is known.
pub fn moves(is_converged: bool) -> impl Strategy<Value = Vec<(u64, Move)>> {
    let cluster = || select(&["blue", "green"][..]);
    let import = || (cluster(), select(&NAMES[..]));
    let records = select(&["shop", "clusterset.shop-set"][..]);
    let second = if is_converged { 2 } else { 0 };
    let one = prop_oneof![
        1 => import().prop_map(|(cluster, name)| Move::DeleteImport(cluster, name)),
        3 => import().prop_map(|(cluster, name)| Move::EditImport(cluster, name)),
        3 => import().prop_map(|(cluster, name)| Move::DeleteDerived(cluster, name)),
        3 => cluster().prop_map(Move::RemoveApis),
        2 => cluster().prop_map(Move::RestoreApis),
        second => cluster().prop_map(Move::ShareSecondNamespace),
        3 => records.prop_map(Move::Uncount),
        2 => Just(Move::Count),
    ];
    prop::collection::vec((0..6000_u64, one), 0..=3).prop_map(|mut moves| {
        moves.sort_by_key(|(at, _)| *at);
        moves
    })
}

impl Move {
    /// Whether it takes an import away that nothing else would.
    pub fn takes_out(self, name: &str) -> bool {
        matches!(self, Self::DeleteImport(_, of) if of == name)
    }

    /// Makes it.
    pub fn make(self, stage: &Stage) {
        match self {
            Self::DeleteImport(cluster, name) => {
                _ = stage.cluster(cluster).delete("serviceimports", "shop", name);
            }
            Self::EditImport(cluster, name) => {
                let server = stage.cluster(cluster);
                let Some(mut import) = server.service_import("shop", name) else { return };
                import["spec"]["ports"] =
                    json!([{"name": "by-hand", "port": 7, "protocol": "TCP"}]);
                import["spec"]["sessionAffinity"] = "ClientIP".into();
                server.put(import);
            }
            Self::DeleteDerived(cluster, name) => {
                let server = stage.cluster(cluster);
                let Some(derived) = super::oracle::derived(server, name) else { return };
                _ = server.delete_service("shop", &derived);
            }
            Self::RemoveApis(cluster) => stage.cluster(cluster).serve_multi_cluster_versions(&[]),
            Self::RestoreApis(cluster) => stage.serve_apis(cluster),
            Self::ShareSecondNamespace(cluster) => {
                let (cloud_map, name) =
                    (&stage.fleet.cloud_map, format!("clusterset.{CLUSTERSET}"));
                let kind = NamespaceKind::Http;
                let second = cloud_map.shared_namespace(&name, kind, OTHER_ACCOUNT);
                cloud_map.service(&second, cluster, ServiceKind::Http);
            }
            Self::Uncount(namespace) => stage.uncount(namespace),
            Self::Count => stage.uncount(""),
        }
    }
}
