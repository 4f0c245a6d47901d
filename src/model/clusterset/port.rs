//! The ports of an exported Service and of its endpoints.

use std::fmt;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// The word of Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp].into_iter().find(|it| it.as_str() == text)
    }
}

/// A port of an exported Service or of an import.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedPort {
    /// Empty for an unnamed port.
    pub name: String,
    pub protocol: Protocol,
    /// The Service's port, not the target port.
    pub number: u16,
    pub app_protocol: Option<String>,
}

/// `http 80/TCP`, and the application protocol if there is one.
impl fmt::Display for ExportedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, protocol, number, app_protocol } = self;
        let name = if name.is_empty() { String::new() } else { format!("{name} ") };
        write!(f, "{name}{number}/{}", protocol.as_str())?;
        app_protocol.iter().try_for_each(|it| write!(f, " {it}"))
    }
}

/// The port of a Service that tells exported instances with the same address and port apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortOfService {
    pub protocol: Protocol,
    /// Empty for an unnamed port.
    pub name: String,
}

/// A port of an endpoint, and the Service's port that leads to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointPort {
    /// The port's name in the `EndpointSlice`; empty if it has none.
    pub name: String,
    pub protocol: Protocol,
    pub number: u16,
    pub service_name: String,
    pub service_protocol: Protocol,
    pub service_number: u16,
    /// `targetPort` of the Service: a number or a name.
    pub target: String,
}
