//! The answer of the action `doctor`, as data and as a person reads it: the checks of each cluster, with a fix for each
//! that fails.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::report::{Shorten, Word};

/// The checks of all clusters that were asked about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkup {
    /// Whether none failed.
    pub ok: bool,
    /// By cluster.
    pub clusters: Vec<ClusterCheckup>,
    /// What is left out, where Lambda's limit does not let all of it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// The checks of one cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterCheckup {
    /// Its ARN or its name, as the settings have it.
    pub cluster: String,
    /// In the order in which one needs the other.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked.
    pub name: Word,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// It is as it should be.
    Ok,
    /// It is not, and the function can do without.
    Note,
    /// It is not, and the function cannot do without.
    Failed,
}

impl Check {
    /// It is as it should be.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: CheckOutcome::Ok, detail: detail.into(), fix: None }
    }

    /// It is not, and the function can do without.
    pub fn note(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Note, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// It is not, and the function cannot do without.
    pub fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Failed, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }
}

impl Checkup {
    /// The checks of these clusters.
    pub fn new(clusters: Vec<ClusterCheckup>) -> Self {
        let mut checks = clusters.iter().flat_map(|cluster| &cluster.checks);
        Self { ok: checks.all(|check| check.outcome != CheckOutcome::Failed), clusters, cut: None }
    }
}

impl Shorten for Checkup {
    fn longest(&self) -> usize {
        self.clusters.len()
    }

    fn shorten(&mut self, entries: usize) {
        for cluster in &mut self.clusters {
            cluster.checks.retain(|check| check.outcome != CheckOutcome::Ok);
        }
        self.clusters.retain(|cluster| !cluster.checks.is_empty());
        self.clusters.truncate(entries);
        self.cut = Some(format!(
            "all checks are too many for Lambda's answer: these are those that are not ok, of up to {entries} \
             clusters; name a cluster"
        ));
    }
}

impl Display for Checkup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for ClusterCheckup { cluster, checks } in &self.clusters {
            writeln!(f, "cluster {cluster}")?;
            checks.iter().try_for_each(|check| write!(f, "{check}"))?;
        }
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        let failed = self.clusters.iter().flat_map(|cluster| &cluster.checks);
        match failed.filter(|check| check.outcome == CheckOutcome::Failed).count() {
            0 => writeln!(f, "all checks passed"),
            1 => writeln!(f, "1 check failed"),
            count => writeln!(f, "{count} checks failed"),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.outcome {
            CheckOutcome::Ok => '=',
            CheckOutcome::Note => '~',
            CheckOutcome::Failed => '!',
        };
        writeln!(f, "  {sign} {:<10} {}", self.name, self.detail)?;
        let helps = if self.outcome == CheckOutcome::Failed { "fix" } else { "try" };
        self.fix.iter().try_for_each(|fix| writeln!(f, "    {helps}: {fix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_check_says_what_to_do_and_a_note_fails_nothing() {
        let checks = vec![
            Check::ok("identity", "arn:aws:sts::111122223333:assumed-role/sync/s"),
            Check::note("events", "may not create events", "apply the role"),
        ];
        let blue = ClusterCheckup { cluster: "blue".to_owned(), checks };
        let well = Checkup::new(vec![blue.clone()]);
        assert!(well.ok && well.to_string().ends_with("\nall checks passed\n"), "{well}");

        let checks = vec![Check::failed("route", "no answer", "allow 443")];
        let green = ClusterCheckup { cluster: "green".to_owned(), checks };
        let ill = Checkup::new(vec![blue, green]);
        assert!(!ill.ok);
        insta::assert_snapshot!(ill.to_string(), @r"
        cluster blue
          = identity   arn:aws:sts::111122223333:assumed-role/sync/s
          ~ events     may not create events
            try: apply the role
        cluster green
          ! route      no answer
            fix: allow 443
        1 check failed
        ");
    }

    #[test]
    fn a_checkup_that_is_too_large_has_the_checks_that_are_not_ok() {
        let cluster = |number: usize| {
            let fine = |_| Check::ok("identity", "a sentence about what was found there");
            let mut checks: Vec<Check> = (0..20).map(fine).collect();
            checks.push(Check::failed("route", "no answer".repeat(40), "allow 443".repeat(40)));
            ClusterCheckup { cluster: format!("cluster-{number:04}"), checks }
        };
        let whole = Checkup::new((0..4_000).map(cluster).collect());
        let checkup: Checkup =
            serde_json::from_value(crate::report::within_limit(&whole)).expect("a checkup");
        assert!(!checkup.ok);
        assert_eq!(checkup.clusters.len(), 4_000, "the failed checks of all clusters are there");
        assert!(checkup.to_string().contains("\n! all checks are too many"));
    }
}
