//! The explanation as text, with the signs of the plan's table: one line for each fact, endpoint and held-back request.
//! `answer` has the same as data.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::{Condition, Discovery, EndpointFate, EndpointLine, Explanation, Fact, Name};

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

impl Display for Name {
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
            (EndpointFate::Registered, _) => '=',
            (EndpointFate::Changes, _) => '~',
            (EndpointFate::ToRegister, _) => '+',
            (EndpointFate::NotRegistered, Condition::Ready) => '!',
            (EndpointFate::NotRegistered, _) => '-',
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
    let parts: Vec<String> =
        by_health.iter().map(|(health, count)| format!("{count} {health}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
