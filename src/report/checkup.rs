//! Whether the function can do its work for a cluster, as one value: a check for each thing that it takes,
//! and what to do about each that fails. The JSON answer of the action `doctor`, and its text. Pure.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::Word;

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
    /// `ok`, `note` or `failed`.
    pub outcome: Word,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// It is as it should be.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: "ok".into(), detail: detail.into(), fix: None }
    }

    /// It is not, and the function can do without.
    pub fn note(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: "note".into(), fix: Some(fix.into()), ..Self::ok(name, detail) }
    }

    /// It is not, and the function cannot do without.
    pub fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { outcome: "failed".into(), fix: Some(fix.into()), ..Self::ok(name, detail) }
    }
}

impl Checkup {
    /// The checks of these clusters.
    pub fn new(clusters: Vec<ClusterCheckup>) -> Self {
        let mut checks = clusters.iter().flat_map(|cluster| &cluster.checks);
        Self { ok: checks.all(|check| check.outcome != "failed"), clusters, cut: None }
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
        match failed.filter(|check| check.outcome == "failed").count() {
            0 => writeln!(f, "all is well"),
            1 => writeln!(f, "1 check failed"),
            count => writeln!(f, "{count} checks failed"),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match &*self.outcome {
            "ok" => '=',
            "note" => '~',
            _ => '!',
        };
        writeln!(f, "  {sign} {:<10} {}", self.name, self.detail)?;
        let helps = if self.outcome == "failed" { "fix" } else { "try" };
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
        assert!(well.ok && well.to_string().ends_with("\nall is well\n"), "{well}");

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
}
