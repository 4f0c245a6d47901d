//! The kind ServiceExport for kube, as far as a watch of metadata needs it: the definition may be absent in a cluster, and
//! no crate has it.

use std::borrow::Cow;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;

/// A ServiceExport of the Multi-Cluster Services API.
#[derive(Clone, Debug)]
pub(super) struct ServiceExport {
    metadata: ObjectMeta,
}

impl Resource for ServiceExport {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ServiceExport".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "multicluster.x-k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "serviceexports".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What changes with each change of a ServiceExport but that of its status, which the function writes: the server counts
/// the generation up for all else that it exports.
pub(super) fn version(meta: &ObjectMeta) -> String {
    let uid = meta.uid.as_deref().unwrap_or_default();
    format!("{uid}/{}", meta.generation.unwrap_or_default())
}
