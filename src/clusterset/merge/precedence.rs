//! The order in which exports decide, and which of them state a property.

use crate::model::clusterset::{Export, ImportType, Properties};

/// All exports of a name, at least one, in precedence: the oldest first, of one age the smaller cluster id.
pub(super) struct Exports<'a> {
    kind: ImportType,
    ranked: Vec<&'a Export>,
}

impl<'a> Exports<'a> {
    /// `None` if there are none.
    pub(super) fn rank(exports: &'a [Export]) -> Option<Self> {
        let mut ranked: Vec<&Export> = exports.iter().collect();
        ranked.sort_by_key(|&export| (export.created, &export.cluster));
        Some(Self { kind: ranked.first()?.kind, ranked })
    }

    /// The type of the first export, which is that of the import.
    pub(super) fn kind(&self) -> ImportType {
        self.kind
    }

    pub(super) fn count(&self) -> usize {
        self.ranked.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a Export> {
        self.ranked.iter().copied()
    }

    /// The exports that state labels and annotations.
    pub(super) fn with_record(&self) -> impl Iterator<Item = (&'a Export, &'a Properties)> {
        self.iter().filter_map(|export| Some((export, export.properties.as_ref()?)))
    }

    /// The exports that state session affinity, traffic policy and traffic distribution for this import. A headless
    /// Service can have them, too, but they have no effect there, so exports of the other type do not count.
    pub(super) fn with_routing(&self) -> impl Iterator<Item = (&'a Export, &'a Properties)> {
        let kind = self.kind();
        self.with_record().filter(move |(export, _)| export.kind == kind)
    }
}
