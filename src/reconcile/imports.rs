//! The imports of a cluster in one run, except for their API calls: the rules of the installation for them, the limits
//! of the guard, and their report.

use std::collections::{BTreeMap, BTreeSet};

use super::{Invocation, JoinedCluster, member};
use crate::guard::Extent;
use crate::import::plan::Write;
use crate::import::sources::{self, ExportsForImporter, Importer, Members};
use crate::import::{Imported, Importing, Made, ReadAgain, plan};
use crate::model::{
    ClusterId, Flow, Kind, Line, Outcome, Owner, STALE, ServiceRef, Timestamp, join_first,
};
use crate::publish::exports::Obstacle;
use crate::report::{GuardReport, Mode, MultiClusterReport};

/// The largest number of imports that a line names.
const NAMED: usize = 3;

impl Invocation<'_> {
    /// A member is stale if its last heartbeat is older than this time.
    pub fn stale_before(&self) -> Timestamp {
        let stale_after = self.settings.stale_clusters_after;
        self.now.saturating_sub(stale_after).unwrap_or(Timestamp::MIN)
    }
}

impl JoinedCluster<'_> {
    /// Imports the exports of all members into the cluster. Returns `None` if the objects of its imports were not read.
    /// `is_selected` says whether the invocation is about this cluster, so that a confirmation applies to it.
    pub async fn import(
        &self,
        members: &Members<'_>,
        is_selected: bool,
        read_again: ReadAgain<'_>,
    ) -> Option<Imported> {
        let Self { invocation, selection, connection, owner, .. } = self;
        let rules = &invocation.settings.rules;
        let guard = plan::GuardedRun {
            cluster: self.arn(),
            guard: rules.guard,
            extent: Extent::of(selection, invocation.confirmed && is_selected),
            may_read_more: members.may_read_more(),
            now: invocation.now,
        };
        let record_owner = self.owner_of_records();
        let importing = Importing {
            kubernetes: &connection.kubernetes,
            owner_label: owner,
            importer: self.importer(&record_owner),
            objects: self.objects.as_ref()?,
            writes: invocation.mode == Mode::Sync,
            policy: rules.policy,
            guard,
            now: invocation.now,
            deadline: invocation.deadline,
        };
        let imported = importing.run(members, selection, read_again).await;
        let notices = imported.imports.values().flat_map(|import| &import.notices);
        invocation.create_events(&connection.kubernetes, notices).await;
        Some(imported)
    }

    /// Returns the exports of one name as this cluster imports them. `in_import` has the clusters with a part in its
    /// import of the name.
    pub fn exports_to_import(
        &self,
        members: &Members<'_>,
        name: &ServiceRef,
        in_import: &BTreeSet<ClusterId>,
    ) -> ExportsForImporter {
        members.exports_for(name, &self.importer(&self.owner_of_records()), in_import)
    }

    /// Adds the imports of a run to the report of the cluster, and the reason if Cloud Map lacks its record.
    pub fn add_imports(
        &self,
        members: &Members<'_>,
        imported: Imported,
        report: &mut MultiClusterReport,
    ) {
        // An obstacle already explains why the cluster has no record.
        if imported.lacks_own_record && !report.lines.iter().any(Line::is_obstacle) {
            let former = members.other_id_of(&self.owner_of_records(), &self.member);
            let obstacle =
                former.map_or(Obstacle::UnfamiliarRegistry, |former| Obstacle::IdChanged {
                    id: self.member.cluster.to_string(),
                    former: former.to_string(),
                });
            report.lines.push((&obstacle).into());
        }
        report.add_imports(imported);
    }

    /// Returns the cluster as an importer. `owner` is the owner of its records.
    fn importer<'i>(&'i self, owner: &'i Owner) -> Importer<'i> {
        let name_policy = self.invocation.settings.rules.name_policy.as_ref();
        Importer { member: &self.member, owner, name_policy }
    }

    /// Returns the owner of the records and of the exported instances of the cluster.
    pub fn owner_of_records(&self) -> Owner {
        let id = self.invocation.settings.owner_id.clone();
        Owner { id, cluster: self.arn().clone(), flow: Flow::Exports }
    }
}

impl MultiClusterReport {
    /// Adds the imports of a run.
    pub fn add_imports(&mut self, imported: Imported) {
        if let Some(policy) = imported.frozen_by {
            let text = format!("POLICY={policy} keeps the imports of this cluster as they are");
            self.lines.push(Line::new('!', "Policy", text, Outcome::HeldBack));
        }
        if !imported.read_problems.is_empty() {
            let problems = join_first(&imported.read_problems, NAMED);
            self.lines.push(Line::unreadable(format!("{UNREAD}: {problems}")));
        }
        self.guard = imported.guard.as_deref().map(GuardReport::from);
        let mut names_by_owner: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, import) in imported.imports {
            self.imported_endpoints += import.endpoints;
            for made in import.made {
                self.count_import(&made);
                self.lines.push(made.change.line(&name, made.result));
            }
            for reason in import.held_back {
                if let plan::Reason::OtherOwner { owner, .. } = reason {
                    names_by_owner.entry(owner).or_default().push(name.clone());
                } else {
                    self.lines.push(member::held_back(&name, reason.code(), reason.to_string()));
                }
            }
            self.unfinished.extend(import.is_unfinished.then_some(name));
        }
        let lines = names_by_owner.into_iter().map(|(owner, names)| other_owner(&owner, &names));
        self.lines.extend(lines);
    }

    /// Adds a created ServiceImport to `imports`, and subtracts a deleted one; a planned change counts too. A run
    /// starts from the number of imports that the cluster had before. A purge starts at 0 and stays there.
    fn count_import(&mut self, Made { change, result }: &Made) {
        if change.object.kind == Kind::ServiceImport && result.is_made() {
            match change.write {
                Write::Create => self.imports += 1,
                Write::Delete => self.imports = self.imports.saturating_sub(1),
                Write::Patch | Write::PatchStatus => {}
            }
        }
    }
}

/// Returns the line about the imports whose objects have the label of another `OWNER_ID`.
fn other_owner(owner: &str, names: &[ServiceRef]) -> Line {
    let names = join_first(names, NAMED);
    let text = format!(
        "objects of these imports have the label of the OWNER_ID {owner}, and stay as they are: {names}; \
         a purge of the cluster by the installation with that OWNER_ID removes them"
    );
    Line::new('!', "OtherOwner", text, Outcome::HeldBack)
}

impl From<&sources::Stale> for Line {
    fn from(sources::Stale { cluster, arn, heartbeat }: &sources::Stale) -> Self {
        let text = format!(
            "member {cluster} ({arn}) was last synced at {heartbeat}; its endpoints stay in the imports"
        );
        Self::new('!', STALE, text, Outcome::Remark)
    }
}

const UNREAD: &str =
    "Cloud Map services could not be read, so the endpoints imported from them stay";
