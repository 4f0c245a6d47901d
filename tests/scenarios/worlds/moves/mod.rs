//! Everything that can happen in a world. Each move is one function, with its generator, its sentence and its effect;
//! the tables of the files have them with their weights.

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

/// What may be there before the function has run.
pub fn of_world() -> impl Strategy<Value = Move> {
    Union::new_weighted([kubernetes::table(), registry::table()].concat())
}

/// All moves.
pub fn any() -> impl Strategy<Value = Move> {
    let tables = [kubernetes::table(), registry::table(), function::table(), trouble::table()];
    Union::new_weighted(tables.concat())
}
