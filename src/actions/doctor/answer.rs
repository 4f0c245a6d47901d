//! The answer of the action `doctor`, as data and as text: the checks of each cluster, with a fix for each failed one.
//! The plugin of kubectl parses the JSON and prints the same text.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::report::{Shorten, Word};

/// The checks of the selected clusters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkup {
    /// Whether no check failed.
    pub ok: bool,
    /// The checks by cluster.
    pub clusters: Vec<ClusterCheckup>,
    /// The part that is left out, if the answer is too large for a Lambda response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// The checks of one cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterCheckup {
    /// Its ARN or its name, as in the settings.
    pub cluster: String,
    /// The checks; each depends on those before it.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The subject.
    pub name: Word,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// The finding.
    pub detail: String,
    /// The remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The check passed.
    Ok,
    /// The check did not pass, and the function works without it.
    Note,
    /// The check did not pass, and the function needs it.
    Failed,
}

impl Check {
    /// A check that passed.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: CheckOutcome::Ok, detail: detail.into(), fix: None }
    }

    /// A check that did not pass, and that the function works without.
    pub fn note(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Note, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// A check that did not pass, and that the function needs.
    pub fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: CheckOutcome::Failed, fix: Some(fix.into()), ..Self::ok(name, detail) }
    }
}

impl Checkup {
    /// A checkup of these clusters.
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
            "the checks are too large for a Lambda response: only those that are not ok are shown, of up to {entries} \
             clusters; select a cluster"
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
        let label = if self.outcome == CheckOutcome::Failed { "fix" } else { "try" };
        self.fix.iter().try_for_each(|fix| writeln!(f, "    {label}: {fix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_prints_its_fix_and_a_note_fails_nothing() {
        let checks = vec![
            Check::ok("identity", "arn:aws:sts::111122223333:assumed-role/sync/s"),
            Check::note("events", "may not create events", "apply the role"),
        ];
        let blue = ClusterCheckup { cluster: "blue".to_owned(), checks };
        let passed = Checkup::new(vec![blue.clone()]);
        assert!(passed.ok && passed.to_string().ends_with("\nall checks passed\n"), "{passed}");

        let checks = vec![Check::failed("route", "no answer", "allow 443")];
        let green = ClusterCheckup { cluster: "green".to_owned(), checks };
        let failed = Checkup::new(vec![blue, green]);
        assert!(!failed.ok);
        insta::assert_snapshot!(failed.to_string(), @r"
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
    fn a_checkup_that_is_too_large_keeps_the_checks_that_are_not_ok() {
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
        assert!(checkup.to_string().contains("\n! the checks are too large"));
    }
}
