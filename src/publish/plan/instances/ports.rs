//! The ports with which the instances of a Service are registered.

use super::shape::Shape;
use crate::error::{printable, shorten_to};
use crate::model::{Endpoint, PortReference};
use crate::publish::plan::Reason;

/// The longest list of ports in a report, in characters.
const MOST_PORTS: usize = 300;

impl Shape<'_> {
    /// The target ports with which an endpoint is registered: all annotated ones if ports distinguish the instances of
    /// the Cloud Map service, otherwise the first. `None` is an instance without a port.
    pub(super) fn ports(&self, endpoint: &Endpoint) -> Vec<Result<Option<u16>, Reason>> {
        let annotated = &self.claims.ports;
        let served = if self.tells_ports_apart() { annotated.len() } else { 1 };
        let targets = annotated.iter().take(served).map(|reference| {
            let port = self.published.port(reference);
            let target = port.and_then(|port| endpoint.ports.get(&port.name));
            target.map(|target| Some(*target)).ok_or_else(|| self.no_such_port(reference))
        });
        if annotated.is_empty() { vec![self.only_port(endpoint)] } else { targets.collect() }
    }

    /// The port of a Service without the annotation: its only port, if the Cloud Map service needs one.
    fn only_port(&self, endpoint: &Endpoint) -> Result<Option<u16>, Reason> {
        let Some(needed_by) = self.needs_port() else { return Ok(None) };
        match self.published.ports.as_slice() {
            [port] => match endpoint.ports.get(&port.name) {
                Some(target) => Ok(Some(*target)),
                None => Err(self.no_such_port(&PortReference::Number(port.number))),
            },
            ports => Err(Reason::PortNeeded { needed_by, ports: ports.len() }),
        }
    }

    /// The part of the Cloud Map service that needs a port of each instance, if there is one.
    pub(super) fn needs_port(&self) -> Option<&'static str> {
        match self.records() {
            Some(records) if records.srv => Some("SRV records"),
            _ if self.is_checked => Some("the Route 53 health checks of this Cloud Map service"),
            _ => None,
        }
    }

    pub(super) fn no_such_port(&self, port: &PortReference) -> Reason {
        let names =
            self.published.ports.iter().take(MOST_PORTS).map(|port| match port.name.as_str() {
                "" => port.number.to_string(),
                name => format!("{name} ({})", port.number),
            });
        let available: Vec<String> = names.collect();
        let available = if available.is_empty() { "none".into() } else { available.join(", ") };
        let available = shorten_to(&printable(&available), MOST_PORTS);
        Reason::NoSuchPort { port: port.clone(), available }
    }
}
