//! The report as a table: one block per cluster, one line per change, with signs as in Terraform (`+ ~ - = !`). The
//! alternate form adds the Kubernetes Service to each change.

use std::fmt::{self, Display, Formatter};

use super::{ClusterReport, Dropped, GuardReport, Mode, MultiClusterReport, Report, ServiceReport};
use crate::model::{Line, display, join};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for cluster in &self.clusters {
            writeln!(f, "cluster {}", cluster.heading())?;
            match &self.cut {
                None => cluster.fmt(f)?,
                Some(_) => cluster.write_counts(f, self.mode)?,
            }
        }
        self.orphans.iter().try_for_each(|orphans| write!(f, "{orphans}"))?;
        for Dropped { message, reason, detail } in &self.dropped {
            writeln!(f, "! dropped    message {message} ({reason}): {detail}")?;
        }
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        writeln!(f, "{}", self.summary())
    }
}

impl Report {
    /// Returns the report in one line.
    pub fn summary(&self) -> String {
        let incomplete = if self.ok { "" } else { ", incomplete" };
        let remark = self.remark.as_ref().map_or_else(String::new, |remark| format!("; {remark}"));
        let counts = self.counts.sentence(self.mode != Mode::Sync);
        match self.mode {
            Mode::Sync => format!("synced{incomplete}: {counts}"),
            Mode::Plan => format!("plan{incomplete}: {counts}{remark}"),
            Mode::DryRun => format!("dry run{incomplete}: {counts}"),
        }
    }
}

impl ClusterReport {
    /// Returns the cluster, and its Cloud Map if that is not the function's own.
    pub(super) fn heading(&self) -> String {
        super::heading(&self.cluster, self.registry.as_deref())
    }

    /// Writes the counts and the guard's verdicts of a cluster, in a report that was cut to them.
    fn write_counts(&self, f: &mut Formatter<'_>, mode: Mode) -> fmt::Result {
        self.error.iter().try_for_each(|error| writeln!(f, "  ! not read: {error}"))?;
        writeln!(f, "  {}", self.counts.sentence(mode != Mode::Sync))?;
        self.guards().try_for_each(|guard| writeln!(f, "  {guard}"))
    }
}

impl Display for ClusterReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let problem = self.described_error();
        problem.iter().try_for_each(|problem| writeln!(f, "  ! {problem}"))?;
        self.services.iter().try_for_each(|service| service.fmt(f))?;
        if (self.unread, self.oldest_read) != (0, 0) {
            let Self { unread, unread_names, oldest_read, .. } = self;
            let own = match unread_names {
                0 => String::new(),
                names => format!(", {names} of them under names of this cluster"),
            };
            writeln!(
                f,
                "  = {unread} Cloud Map services not read yet{own}; the oldest read is {oldest_read} s old"
            )?;
        }
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.guard.iter().try_for_each(|guard| writeln!(f, "  {guard}"))?;
        self.multi_cluster.iter().try_for_each(|multi_cluster| multi_cluster.fmt(f))?;
        let is_held_back = self.lines.iter().any(Line::has_reason) || self.counts.held_back > 0;
        let has_part = !self.services.is_empty() || self.multi_cluster.is_some();
        if problem.is_none() && !has_part && !is_held_back {
            writeln!(f, "  no Service is annotated, and no instance of ours is registered")?;
        }
        Ok(())
    }
}

impl Display for ServiceReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}/{}", self.namespace, self.name)?;
        let (reasons, facts): (Vec<&Line>, Vec<&Line>) =
            self.lines.iter().partition(|line| line.has_reason());
        for line in facts {
            f.write_str("    ")?;
            line.fmt(f)?;
            writeln!(f)?;
        }
        if self.unchanged > 0 {
            writeln!(f, "    = {} unchanged", self.unchanged)?;
        }
        if !self.foreign.is_empty() {
            let kinds = self.foreign.iter().map(|(kind, count)| format!("{count} {kind}"));
            writeln!(f, "    = left alone, not ours: {}", join(kinds, ", "))?;
        }
        reasons.into_iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        if self.lines.is_empty() && self.unchanged == 0 && self.foreign.is_empty() {
            writeln!(f, "    = nothing to do")?;
        }
        Ok(())
    }
}

display!(GuardReport { state, detail, .. } => "! guard      {state}: {detail}");

impl Display for MultiClusterReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (Some(cluster), Some(clusterset)) = (&self.cluster_id, &self.clusterset) {
            let exports = count(self.exports, "export");
            let imports = count(self.imports, "import");
            writeln!(f, "  clusterset {clusterset}, member {cluster}: {exports}, {imports}")?;
        }
        let mut lines = self.lines_in_order().into_iter();
        lines.try_for_each(|line| writeln!(f, "    {line}"))?;
        self.guard.iter().try_for_each(|guard| writeln!(f, "    {guard}"))
    }
}

/// Returns a number with its noun, such as `1 import` or `2 imports`.
pub fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EXPORTED, Outcome, ServiceRef};

    #[test]
    fn table_names_the_member_and_every_line() {
        let about = |code: &'static str, text: &str, outcome| {
            Line::new('!', code, text, outcome).about(ServiceRef::new("shop", "web"))
        };
        let change = |sign, code: &'static str, object: &str, text: &str, outcome| Line {
            object: Some(object.to_owned()),
            ..Line::new(sign, code, text, outcome).about(ServiceRef::new("shop", "web"))
        };
        let failed = Outcome::failed("403 Forbidden");
        let report = MultiClusterReport {
            cluster_id: Some("blue".to_owned()),
            clusterset: Some("shop-set".to_owned()),
            exports: 2,
            imports: 1,
            imported_endpoints: 3,
            lines: vec![
                Line::new('!', "UnfamiliarRegistry", "no record", Outcome::HeldBack),
                about("PortConflict", "the ports differ", Outcome::Remark),
                about("ForeignObject", "it is not ours", Outcome::HeldBack),
                change('+', EXPORTED, "shop/api", "", Outcome::Applied),
                Line::new('!', "stale", "member green was last synced yesterday", Outcome::Remark),
                change('+', "import", "shop/web", "ClusterSetIP", Outcome::Applied),
                change('~', "service", "shop/derived-x", "port 81", failed),
            ],
            ..MultiClusterReport::default()
        };
        insta::assert_snapshot!(report.to_string(), @"
          clusterset shop-set, member blue: 2 exports, 1 import
            ! stale      member green was last synced yesterday
            ! obstacle   (UnfamiliarRegistry): no record
            + export     shop/api
            + import     shop/web  ClusterSetIP
            ~ service    shop/derived-x  port 81  ! failed: 403 Forbidden
            ! held back  shop/web (ForeignObject): it is not ours
            ! remark     shop/web (PortConflict): the ports differ
        ");
        assert_eq!((report.count_unfinished(), report.count_made()), (1, 1));
    }
}
