//! The exports of one name, as all importing clusters see them: those of each member, read and merged once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Members;
use super::member::{OfMember, export_of_instances};
use super::records::Records;
use crate::clusterset::attributes::{self, ExportInstance, Skipped};
use crate::clusterset::endpoints::endpoints_of;
use crate::clusterset::merge::{Merged, merge};
use crate::clusterset::record::as_recorded;
use crate::import::plan::Reason;
use crate::model::clusterset::{ClusterId, Export, ExportedEndpoint, Overlay};
use crate::model::{ClusterArn, ServiceRef};

/// The exports of one name.
pub(super) struct Named {
    /// `None`: not known.
    pub(super) members: BTreeMap<ClusterId, Option<OfMember>>,
    pub(super) exports: Arc<Vec<Export>>,
    pub(super) merged: Option<Arc<Merged>>,
    /// The instances and records that are not imported, with the reasons.
    pub(super) left_out: Vec<Reason>,
    /// Whether all Cloud Map services of the name were read.
    pub(super) is_read: bool,
}

/// Instances of one name, with their ids.
type Imported<'a> = Vec<(&'a String, ExportInstance)>;

/// The export of one member with all its endpoints, if it has one.
struct OneExport {
    arn: Option<ClusterArn>,
    export: Option<(Export, Vec<ExportedEndpoint>)>,
}

impl Named {
    pub(super) fn read(all: &Members<'_>, name: &ServiceRef) -> Self {
        let instances = all.instances(name);
        let is_read = instances.is_some();
        let (instances, skipped) = instances.unwrap_or_default();
        let mut members: BTreeMap<ClusterId, Option<OneExport>> = BTreeMap::new();
        let read_there = all.overlay.iter().filter(|(_, overlay)| overlay.covers(name));
        for (cluster, overlay) in read_there {
            members.insert(cluster.clone(), Some(OneExport::read_there(overlay, name)));
        }
        let mut of_cluster: BTreeMap<&ClusterId, Vec<&(&String, ExportInstance)>> = BTreeMap::new();
        for instance in &instances {
            of_cluster.entry(&instance.1.cluster).or_default().push(instance);
        }
        let clusters = all.records.keys().chain(of_cluster.keys().copied());
        for cluster in clusters.collect::<BTreeSet<_>>() {
            let own = of_cluster.get(cluster).map(Vec::as_slice).unwrap_or_default();
            members
                .entry(cluster.clone())
                .or_insert_with(|| all.of_registry(cluster, name, own).filter(|_| is_read));
        }
        let exports = members.values().flatten().filter_map(|it| it.export.as_ref());
        let exports: Vec<Export> = exports.map(|(export, _)| export.clone()).collect();
        let merged = merge(name, &exports);
        let members = members.into_iter().map(|(cluster, one)| {
            let of_member = one.map(|OneExport { arn, export }| {
                let is_read_there = all.is_read_there(&cluster, name);
                OfMember::new((arn, is_read_there), export, merged.as_ref().map(|it| &it.service))
            });
            (cluster, of_member)
        });
        let members = members.collect();
        let skipped = (!skipped.is_empty()).then_some(Reason::Skipped { instances: skipped });
        let unusable = all
            .unusable()
            .filter(|it| it.record.may_be_of(name) && !all.is_read_there(&it.record.cluster, name));
        let unusable = unusable.map(|it| Reason::UnusableRecord { record: it.to_string() });
        let left_out = skipped.into_iter().chain(unusable).collect();
        let (exports, merged) = (Arc::new(exports), merged.map(Arc::new));
        Self { members, exports, merged, left_out, is_read }
    }
}

impl<'a> Members<'a> {
    /// All instances of the name that belong to the clusterset and can be imported, and those that cannot; `None` if a
    /// Cloud Map service of the name could not be read.
    fn instances(&self, name: &ServiceRef) -> Option<(Imported<'a>, Vec<(String, Skipped)>)> {
        let (mut all, mut skipped) = (Vec::new(), Vec::new());
        for key in self.places.get(name).into_iter().flatten() {
            let service = self.registry.services.get(*key)?;
            if service.unreadable.is_some() {
                return None;
            }
            for (id, attributes) in self.registry.instances(key) {
                match attributes::read(attributes, self.clusterset) {
                    Ok(instance) => all.extend(instance.map(|instance| (id, instance))),
                    Err(reason) => skipped.push((id.clone(), reason)),
                }
            }
        }
        Some((all, skipped))
    }

    /// The export of a member as Cloud Map has it; `None` if that is not known.
    fn of_registry(
        &self,
        cluster: &ClusterId,
        name: &ServiceRef,
        own: &[&(&String, ExportInstance)],
    ) -> Option<OneExport> {
        let none = Records::default();
        let records = self.records.get(cluster).unwrap_or(&none);
        if records.is_unread || records.unusable.iter().any(|it| it.record.may_be_of(name)) {
            return None;
        }
        // Its record may have been written since the members were listed.
        let is_new = !self.is_complete && !self.records.contains_key(cluster);
        if is_new && own.iter().any(|(_, it)| it.is_marked) {
            return None;
        }
        let arn = records.exports.get(name).map(|record| record.owner.cluster.clone());
        let export = match records.exports.get(name) {
            Some(record) => Some(record.export.clone()),
            None => export_of_instances(cluster, own),
        };
        let endpoints = own.iter().map(|(_, instance)| instance.endpoint.clone());
        Some(OneExport { arn, export: export.map(|export| (export, endpoints.collect())) })
    }
}

impl OneExport {
    /// The export of a cluster that this invocation read itself.
    fn read_there(overlay: &Overlay, name: &ServiceRef) -> Self {
        let published = overlay.desired.services.get(name);
        let export = published.and_then(|published| {
            let exported = published.export.as_ref()?;
            let endpoints = published.endpoints.iter().flatten();
            let endpoints = endpoints.filter(|it| it.ready || it.is_leaving()).flat_map(|it| {
                let all = endpoints_of(exported, it, overlay.arn.region()).into_iter();
                let (ready, is_leaving) = (it.ready, it.is_leaving());
                all.map(move |endpoint| ExportedEndpoint { ready, is_leaving, ..endpoint })
            });
            Some((as_recorded(&exported.export), endpoints.collect()))
        });
        Self { arn: Some(overlay.arn.clone()), export }
    }
}
