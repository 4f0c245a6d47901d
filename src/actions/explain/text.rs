//! The explanation as text, with the signs of the plan's table: one line for each fact, endpoint, exporter and held-back
//! request. `answer` and `clusterset` have the same as data.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::answer::{Discovery, EndpointCondition, EndpointLine, ExplainedName, Explanation, Fact};
use super::clusterset::{ImportFate, ImportedLine};
use super::clusterset_answer::{ClustersetExplanation, ExporterLine};
use crate::model::join_or;
use crate::publish::plan::Fate;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "service {} in cluster {}", self.service, self.cluster)?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "  {fact}"))?;
        self.names.iter().try_for_each(|name| write!(f, "{name}"))?;
        self.clusterset.iter().try_for_each(|it| write!(f, "{it}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.cut.iter().try_for_each(|cut| writeln!(f, "! {cut}"))?;
        let result =
            if self.ok { "no problems found" } else { "problems found: see the lines with !" };
        writeln!(f, "{result}")
    }
}

impl Display for Fact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match (self.stops, &*self.about) {
            (true, _) => '!',
            (false, "note") => '~',
            (false, _) => '=',
        };
        write!(f, "{sign} {:<10} {}", self.about, self.detail)
    }
}

impl Display for ExplainedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}/{}", self.namespace, self.name)?;
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        if self.endpoints.is_empty() {
            writeln!(f, "    ! endpoints  none: does the Service's selector match pods?")?;
        }
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.discovery.iter().try_for_each(|it| writeln!(f, "    {it}"))
    }
}

impl Display for EndpointLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match (self.fate, self.condition) {
            (Fate::Registered, _) => '=',
            (Fate::Changes, _) => '~',
            (Fate::ToRegister, _) => '+',
            (Fate::NotRegistered, EndpointCondition::Ready) => '!',
            (Fate::NotRegistered, _) => '-',
        };
        let pod = self.pod.as_deref().unwrap_or("no pod");
        let addresses = self.addresses.join(" ");
        write!(f, "{sign} endpoint   {addresses} ({pod}, {}): {}", self.condition, self.detail)
    }
}

impl Display for Discovery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let dns = self.dns.as_ref().map(|dns| format!("; DNS name {dns}")).unwrap_or_default();
        if let Some(error) = &self.error {
            return write!(f, "! discovery  failed: {error}{dns}");
        }
        let (ours, others) = (format_counts(&self.ours), format_counts(&self.others));
        write!(f, "= discovery  returns {ours} of this cluster and {others} of other owners{dns}")
    }
}

/// `2 HEALTHY, 1 UNHEALTHY`
fn format_counts(by_health: &BTreeMap<String, usize>) -> String {
    join_or(by_health.iter().map(|(health, count)| format!("{count} {health}")), ", ", "none")
}

impl Display for ClustersetExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.clusterset, &self.member) {
            (Some(clusterset), Some(member)) => {
                writeln!(f, "  clusterset {clusterset}, member {member}")?;
            }
            _ => writeln!(f, "  clusterset")?,
        }
        self.facts.iter().try_for_each(|fact| writeln!(f, "    {fact}"))?;
        self.held_back.iter().try_for_each(|line| writeln!(f, "    ! held back  {line}"))?;
        self.exporters.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        self.endpoints.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Display for ExporterLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { member, owner, created, age, decides } = self;
        let by = owner.as_deref().unwrap_or("AWS's controller");
        let decides = join_or(decides, ", ", "nothing");
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
