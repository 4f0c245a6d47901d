//! The calls of Cloud Map and the rate limits of an account in one Region. AWS publishes no limits of the control
//! plane: these are the default limits of its own MCS controller (aws-cloud-map-mcs-controller-for-k8s,
//! pkg/cloudmap/ratelimiter.go). A call that is not listed there has the limit of the most similar call.

use std::time::Duration;

use crate::model::words::words;

words! {
    /// One kind of call, by the name of its operation in Cloud Map.
    pub enum Call {
        ListNamespaces = "ListNamespaces",
        ListServices = "ListServices",
        ListInstances = "ListInstances",
        ListTagsForResource = "ListTagsForResource",
        GetNamespace = "GetNamespace",
        GetService = "GetService",
        GetInstance = "GetInstance",
        GetInstancesHealthStatus = "GetInstancesHealthStatus",
        GetServiceAttributes = "GetServiceAttributes",
        GetOperation = "GetOperation",
        DiscoverInstances = "DiscoverInstances",
        CreateHttpNamespace = "CreateHttpNamespace",
        CreateService = "CreateService",
        UpdateService = "UpdateService",
        UpdateServiceAttributes = "UpdateServiceAttributes",
        DeleteServiceAttributes = "DeleteServiceAttributes",
        DeleteService = "DeleteService",
        RegisterInstance = "RegisterInstance",
        DeregisterInstance = "DeregisterInstance",
        UpdateInstanceCustomHealthStatus = "UpdateInstanceCustomHealthStatus",
    }
}

/// A rate limit: calls per second over time, and at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

impl Rate {
    /// The time that the limit alone forces on a number of calls after a pause.
    pub fn forced_time(self, calls: usize) -> Duration {
        let calls = f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
        Duration::from_secs_f64(((calls - self.burst) / self.per_second).max(0.0))
    }
}

impl Call {
    /// The limit of an account in one Region.
    pub fn rate(self) -> Rate {
        let (per_second, burst) = match self {
            Self::ListNamespaces | Self::CreateHttpNamespace => (0.5, 5.0),
            Self::ListServices => (2.0, 10.0),
            Self::ListInstances
            | Self::ListTagsForResource
            | Self::GetNamespace
            | Self::GetService
            | Self::GetInstance
            | Self::GetInstancesHealthStatus
            | Self::GetServiceAttributes => (50.0, 50.0),
            Self::GetOperation => (100.0, 200.0),
            // The only limit that AWS publishes, as a quota.
            Self::DiscoverInstances => (1000.0, 2000.0),
            Self::CreateService
            | Self::UpdateService
            | Self::UpdateServiceAttributes
            | Self::DeleteServiceAttributes
            | Self::DeleteService => (5.0, 50.0),
            Self::RegisterInstance
            | Self::DeregisterInstance
            | Self::UpdateInstanceCustomHealthStatus => (50.0, 100.0),
        };
        Rate { per_second, burst }
    }
}
