//! The status as tables: a row for each Cloud Map service with a column for each kind of party, and a row for each
//! member of a clusterset. The alternate form (`{:#}`) also names the parties and the members' clusters.

use std::fmt::{self, Display, Formatter};

use super::{
    ClustersetStatus, MemberStatus, RegistryStatus, ServiceStatus, Share, ShareOf, Split, Status,
};
use crate::model::{ClusterArn, join, join_or};
use crate::report::count;

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.cut.is_none() {
            self.registries.iter().try_for_each(|registry| self.write_registry(f, registry))?;
        }
        writeln!(f, "{}", self.summary())
    }
}

impl Status {
    /// The headings: the service, its type, and the kinds of parties.
    pub fn headings(&self) -> [String; 7] {
        let [ours, others, ecs, tools, unknown] = self.parties().map(str::to_uppercase);
        ["SERVICE".to_owned(), "TYPE".to_owned(), ours, others, ecs, tools, unknown]
    }

    /// Returns the totals of all services in one line.
    pub fn summary(&self) -> String {
        if let Some(cut) = &self.cut {
            return cut.clone();
        }
        let services: Vec<&ServiceStatus> =
            self.registries.iter().flat_map(|registry| &registry.services).collect();
        let splits = services.iter().map(|service| self.split(service));
        let parts = sum(splits).into_iter().zip(self.parties());
        let parts = parts.filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, party)| format!("{count} {party}"));
        let parts = join_or(parts, ", ", "no instances");
        let incomplete = if self.ok { "" } else { ", incomplete" };
        format!("{}{incomplete}: {parts}", count(services.len(), "service"))
    }

    /// A service's row under the headings.
    pub fn row(&self, service: &ServiceStatus) -> [String; 7] {
        let place = format!("{}/{}", service.namespace, service.name);
        let [ours, others, ecs, tools, unknown] = self.split(service).map(cell);
        [place, service.kind.clone(), ours, others, ecs, tools, unknown]
    }

    fn write_registry(&self, f: &mut Formatter<'_>, registry: &RegistryStatus) -> fmt::Result {
        registry.registry.iter().try_for_each(|name| writeln!(f, "Cloud Map {name}"))?;
        if let Some(error) = &registry.error {
            return writeln!(f, "! not read: {error}");
        }
        let lines =
            lines(self.headings(), registry.services.iter().map(|service| self.row(service)));
        writeln!(f, "{}", lines[0])?;
        for (line, service) in lines[1..].iter().zip(&registry.services) {
            writeln!(f, "{line}")?;
            if let Some(problem) = &service.unreadable {
                writeln!(f, "  ! not read   {problem}")?;
            }
            service.delete.iter().try_for_each(|command| writeln!(f, "    {command}"))?;
            if f.alternate() {
                service.instances.iter().try_for_each(|share| writeln!(f, "    {share}"))?;
            }
        }
        registry.clustersets.iter().try_for_each(|clusterset| clusterset.fmt(f))
    }
}

impl Display for ClustersetStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "clusterset {}", self.clusterset)?;
        let headings = MemberStatus::HEADINGS.map(str::to_owned);
        let lines = lines(headings, self.members.iter().map(MemberStatus::row));
        writeln!(f, "{}", lines[0])?;
        for (line, member) in lines[1..].iter().zip(&self.members) {
            writeln!(f, "{line}")?;
            for problem in &member.problems {
                writeln!(f, "  ! records    {problem}")?;
            }
            if f.alternate() {
                member.cluster.iter().try_for_each(|cluster| writeln!(f, "    {cluster}"))?;
            }
        }
        Ok(())
    }
}

/// Formats a table as aligned lines: the headings, then each row.
fn lines<const N: usize>(
    headings: [String; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<String> {
    let rows: Vec<[String; N]> = [headings].into_iter().chain(rows).collect();
    let cells = |column: usize| rows.iter().map(move |row| row[column].chars().count());
    let widths: [usize; N] = std::array::from_fn(|column| cells(column).max().unwrap_or_default());
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        join(cells, "  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Formats a count for a table: `-` for zero.
pub(super) fn cell(count: usize) -> String {
    if count == 0 { "-".to_owned() } else { count.to_string() }
}

/// Sums each column.
pub fn sum(splits: impl Iterator<Item = Split>) -> Split {
    let mut sum = Split::default();
    for (column, count) in splits.flat_map(|split| split.into_iter().enumerate()) {
        sum[column] += count;
    }
    sum
}

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { by, name, owner, count } = self;
        let name = name.as_deref().unwrap_or_default();
        match by {
            ShareOf::Cluster => {
                let cluster = ClusterArn::parse(name);
                let cluster = cluster.as_ref().map_or(name, ClusterArn::name);
                let owner = owner.as_deref().unwrap_or_default();
                write!(f, "{count} of cluster {cluster} ({owner})")
            }
            ShareOf::Ecs if name.is_empty() => write!(f, "{count} of ECS"),
            ShareOf::Ecs => write!(f, "{count} of ECS service {name}"),
            ShareOf::InvalidMarks => write!(f, "{count} of another cluster, with broken marks"),
            ShareOf::McsController => write!(f, "{count} of the AWS MCS controller"),
            ShareOf::AppMesh => write!(f, "{count} of the App Mesh controller"),
            ShareOf::Unknown => write!(f, "{count} of an unknown party"),
        }
    }
}
