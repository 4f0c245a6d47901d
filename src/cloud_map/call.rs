//! What Cloud Map is asked for, and how often an account may ask in one Region. AWS publishes no rates of
//! the control plane: those here are what its own engineers coded as the default limits in the MCS controller
//! (aws-cloud-map-mcs-controller-for-k8s, pkg/cloudmap/ratelimiter.go), and of the calls that are not
//! named there, those of the call that is most like it.

/// One kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "Cloud Map's own names")]
pub enum Call {
    ListNamespaces,
    ListServices,
    ListInstances,
    ListTagsForResource,
    GetInstance,
    GetInstancesHealthStatus,
    GetOperation,
    DiscoverInstances,
    CreateHttpNamespace,
    CreateService,
    UpdateService,
    DeleteService,
    RegisterInstance,
    DeregisterInstance,
    UpdateInstanceCustomHealthStatus,
}

/// How often a call may be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// In the long run.
    pub per_second: f64,
    /// At once, after a rest.
    pub burst: f64,
}

impl Call {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::ListNamespaces,
        Self::ListServices,
        Self::ListInstances,
        Self::ListTagsForResource,
        Self::GetInstance,
        Self::GetInstancesHealthStatus,
        Self::GetOperation,
        Self::DiscoverInstances,
        Self::CreateHttpNamespace,
        Self::CreateService,
        Self::UpdateService,
        Self::DeleteService,
        Self::RegisterInstance,
        Self::DeregisterInstance,
        Self::UpdateInstanceCustomHealthStatus,
    ];

    /// The call that Cloud Map knows by this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|call| format!("{call:?}") == name)
    }

    /// What an account may do.
    pub fn rate(self) -> Rate {
        let (per_second, burst) = match self {
            Self::ListNamespaces | Self::CreateHttpNamespace => (0.5, 5.0),
            Self::ListServices => (2.0, 10.0),
            Self::ListInstances
            | Self::ListTagsForResource
            | Self::GetInstance
            | Self::GetInstancesHealthStatus => (50.0, 50.0),
            Self::GetOperation => (100.0, 200.0),
            // The only one that AWS publishes, as a quota.
            Self::DiscoverInstances => (1000.0, 2000.0),
            Self::CreateService | Self::UpdateService | Self::DeleteService => (5.0, 50.0),
            Self::RegisterInstance
            | Self::DeregisterInstance
            | Self::UpdateInstanceCustomHealthStatus => (50.0, 100.0),
        };
        Rate { per_second, burst }
    }
}
