//! A second look at imports in which an object has changed since it was read: by an overlapping run, or a person. The API
//! server refused the change (409), so the objects are read once more, then the exports that they rest on, and the import
//! is decided and written again. If that is refused, too, the next run goes on.

use std::collections::BTreeMap;

use super::imports::Imports;
use super::{Clustersets, Members, Offered};
use crate::error::chain;
use crate::import::Imported;
use crate::model::Selection;
use crate::model::clusterset::Overlay;
use crate::publish::exports::Offer;

/// With more imports of a cluster that have changed, the others wait for the next run: each needs three reads.
const MOST: usize = 40;

impl Clustersets<'_> {
    /// Looks at the outdated imports again, and takes them over into the outcome of the first look.
    pub(super) async fn look_again(&self, imports: &mut Imports) {
        let outdated = imports.imported.iter();
        let outdated: BTreeMap<usize, Selection> =
            outdated.filter_map(|(index, it)| Some((*index, it.outdated(MOST)?))).collect();
        let mut again = BTreeMap::new();
        if !outdated.is_empty() && self.invocation.deadline.is_open() {
            again = self.import_again(imports, &outdated).await;
        }
        for (index, imported) in &mut imports.imported {
            let looked_at = outdated.get(index).zip(again.remove(index));
            imported.looked_again(looked_at);
        }
    }

    async fn import_again(
        &self,
        first: &Imports,
        outdated: &BTreeMap<usize, Selection>,
    ) -> BTreeMap<usize, Imported> {
        let members = self.join_again(outdated).await;
        let clusters = members.values().flatten().map(|joined| joined.cluster);
        let keys = clusters.map(|cluster| self.function.clients.registry_of(cluster));
        let registries = self.function.registries(keys, None).await;
        let again = Clustersets { registries: &registries, members: &members, ..*self };
        let offered = again.offered_again(first, outdated).await;
        tracing::info!(clusters = outdated.len(), "imports that changed meanwhile are read again");
        again.import_all(offered).await.imported
    }

    /// The members with their outdated imports as they are now; without any, if none is outdated.
    async fn join_again(&self, outdated: &BTreeMap<usize, Selection>) -> Members<'_> {
        let mut members = Members::new();
        for (index, joined) in self.joined() {
            let selection = outdated.get(&index).cloned().unwrap_or_else(Selection::nothing);
            match joined.again(selection).await {
                Ok(again) => _ = members.insert(index, Ok(again)),
                Err(error) => tracing::warn!("imports not read again: {}", chain(&error)),
            }
        }
        members
    }

    /// The exports of the clusters that stood in place of Cloud Map before, read after the objects of the imports.
    async fn offered_again(
        &self,
        first: &Imports,
        outdated: &BTreeMap<usize, Selection>,
    ) -> Offered {
        let mut offered = Offered::new();
        let Some(names) = outdated.values().cloned().reduce(Selection::union) else {
            return offered;
        };
        for (index, joined) in self.joined() {
            let set = first.sets.get(&self.key(joined));
            let Some(overlay) = set.and_then(|set| set.overlay_of(joined)) else { continue };
            let covers = names.only(|name| overlay.covers(name));
            if let Some(exports) = joined.exports_in_cluster(self.registry(joined), &covers).await {
                let (held, let_pass) = (overlay.held.clone(), overlay.let_pass);
                let overlay = Overlay { held, let_pass, ..exports };
                offered.insert(index, Offer::Exports { overlay, has_cluster_record: true });
            }
        }
        offered
    }
}
