//! Everything that can happen in a world. Each move is one function, with its generator, its sentence and its effect;
//! the tables of the files have them with their weights.

mod clusterset;
mod function;
mod kubernetes;
mod registry;
mod trouble;

use std::fmt;
use std::rc::Rc;

use proptest::prelude::*;
use proptest::strategy::Union;

use super::play::Scene;

/// One thing that happens. It does nothing if it does not apply.
#[derive(Clone)]
pub struct Move {
    sentence: String,
    effect: Rc<dyn Fn(&mut Scene)>,
}

impl Move {
    fn new(sentence: impl Into<String>, effect: impl Fn(&mut Scene) + 'static) -> Self {
        Self { sentence: sentence.into(), effect: Rc::new(effect) }
    }

    pub fn make(&self, scene: &mut Scene) {
        (self.effect)(scene);
    }
}

impl fmt::Display for Move {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&self.sentence)
    }
}

impl fmt::Debug for Move {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&self.sentence)
    }
}

/// Moves with their weights.
type Table = Vec<(u32, BoxedStrategy<Move>)>;

/// The flows of a world: annotated Services, services across clusters, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    pub has_annotated: bool,
    pub has_exported: bool,
}

impl Flows {
    /// The tables of what may be there before the function has run.
    fn of_world(self) -> Table {
        let annotated = || [kubernetes::table(), registry::table()].concat();
        let mut tables = if self.has_annotated { annotated() } else { Table::new() };
        tables.extend(self.has_exported.then(clusterset::table).into_iter().flatten());
        tables
    }

    pub fn before(self) -> impl Strategy<Value = Move> {
        Union::new_weighted(self.of_world())
    }

    /// All moves.
    pub fn any(self) -> impl Strategy<Value = Move> {
        let of_others = self.has_exported.then(clusterset::of_others).unwrap_or_default();
        let of_both = (self.has_annotated && self.has_exported).then(clusterset::of_both);
        let tables = [
            of_both.unwrap_or_default(),
            self.of_world(),
            of_others,
            function::table(self),
            trouble::table(self),
        ];
        Union::new_weighted(tables.concat())
    }
}
