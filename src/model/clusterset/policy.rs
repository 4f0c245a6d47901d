//! The settings of a Service that decide to which of its endpoints a client is led, as an import carries them.

/// `spec.sessionAffinity` of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionAffinity {
    #[default]
    None,
    /// With its timeout in seconds, if the Service has one.
    ClientIp(Option<u32>),
}

impl SessionAffinity {
    /// The word of Kubernetes, without the timeout.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::ClientIp(_) => "ClientIP",
        }
    }
}

/// `spec.internalTrafficPolicy` of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InternalTrafficPolicy {
    #[default]
    Cluster,
    Local,
}

impl InternalTrafficPolicy {
    /// The word of Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Cluster, Self::Local].into_iter().find(|it| it.as_str() == text)
    }
}
