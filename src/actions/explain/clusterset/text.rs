//! The export and the import of one name as text, a line for each fact, exporter and endpoint.

use std::fmt::{self, Display, Formatter};

use super::{ClustersetExplanation, ExporterLine, ImportFate, ImportedLine};

impl Display for ClustersetExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.clusterset, &self.member) {
            (Some(clusterset), Some(member)) => {
                writeln!(f, "  clusterset {clusterset}, member {member}")?;
            }
            _ => writeln!(f, "  clusterset")?,
        }
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        for line in &self.held_back {
            writeln!(f, "    ! held back  {line}")?;
        }
        self.exporters.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Display for ExporterLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { member, owner, created, age, decides } = self;
        let by = owner.as_deref().unwrap_or("AWS's controller");
        let decides = if decides.is_empty() { "nothing".to_owned() } else { decides.join(", ") };
        write!(f, "= exporter   {member} (run by {by}), since {created} ({age}): decides {decides}")
    }
}

impl Display for ImportedLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.fate {
            ImportFate::Imported => '=',
            ImportFate::Kept => '~',
            ImportFate::ToAdd => '+',
            ImportFate::ToRemove | ImportFate::NotReady => '-',
            ImportFate::LeftOut => '!',
        };
        let member = self.member.as_deref().unwrap_or("an unknown cluster");
        let ports = if self.ports.is_empty() {
            String::new()
        } else {
            format!(" port {}", self.ports.join(" "))
        };
        let pod = self.pod.as_ref().map(|pod| format!(" ({pod})")).unwrap_or_default();
        write!(f, "{sign} endpoint   {}{ports} of {member}{pod}: {}", self.address, self.detail)
    }
}
