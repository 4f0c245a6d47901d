//! The record of calls: one entry for each request that named an operation, with any result.

/// One call over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation's name.
    pub operation: String,
    /// The service's id; for CreateService and DiscoverInstances, which know none, its name.
    pub service: Option<String>,
    /// The instance's id.
    pub instance: Option<String>,
    /// The HTTP status of the answer; 0 where the connection ended without one.
    pub status: u16,
}

impl Call {
    /// Whether the operation would change the registry.
    pub fn is_write(&self) -> bool {
        !["Get", "List", "Discover"].iter().any(|verb| self.operation.starts_with(verb))
    }
}
