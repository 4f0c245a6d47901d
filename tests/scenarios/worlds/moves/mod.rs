//! Everything that can happen in a world. Each move is one function, with its generator, its sentence and its effect;
//! the tables of the files have them with their weights.

/// A table of kinds of moves: the weight of each, and the function that draws it.
macro_rules! kinds {
    ($($weight:literal $kind:ident($($flows:ident)?);)*) => {
        vec![$((stringify!($kind), $weight, $kind($($flows)?).boxed())),*]
    };
}

mod clusterset;
mod function;
mod kubernetes;
mod registry;
mod trouble;

use std::fmt;
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
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

    /// The same move, after which calls may be repeated.
    fn disturbing(self) -> Self {
        Self::new(self.sentence.clone(), move |scene| {
            scene.is_disturbed = true;
            self.make(scene);
        })
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

/// Kinds of moves, with their names and weights.
type Table = Vec<(&'static str, u32, BoxedStrategy<Move>)>;

/// The kinds with their weights alone. Of those that `KINDS` names two of three moves are, each drawn as often.
fn weighted(table: Table) -> Vec<(u32, BoxedStrategy<Move>)> {
    let named = std::env::var("KINDS").unwrap_or_default();
    let is_named = |kind: &str| named.split(',').any(|it| it == kind);
    let total: u32 = table.iter().map(|(_, weight, _)| weight).sum();
    let count = table.iter().filter(|(kind, ..)| is_named(kind)).count().max(1);
    let focus = 2 * total / u32::try_from(count).expect("few kinds");
    let weight = |kind, weight| if is_named(kind) { focus } else { weight };
    table.into_iter().map(|(kind, of_table, it)| (weight(kind, of_table), it)).collect()
}

/// What the weight of a kind of move is multiplied with in a world of uneven weights.
const FACTORS: &[u32] = &[0, 1, 1, 4];

/// The flows of a world: annotated Services, services across clusters, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    pub has_annotated: bool,
    pub has_exported: bool,
    /// Whether imports of services across clusters find what is in their way.
    pub is_obstructed: bool,
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
        let all = self.of_world().into_iter().map(|(_, weight, it)| (weight, it));
        Union::new_weighted(all.collect())
    }

    /// All moves. With `UNEVEN` each world has weights of its own: what seldom comes together does in some of them.
    pub fn any(self) -> impl Strategy<Value = BoxedStrategy<Move>> {
        let of_others = self.has_exported.then(clusterset::of_others).unwrap_or_default();
        let obstacles = self.is_obstructed.then(clusterset::obstacles).unwrap_or_default();
        let of_both = (self.has_annotated && self.has_exported).then(clusterset::of_both);
        let tables = [
            of_both.unwrap_or_default(),
            self.of_world(),
            of_others,
            obstacles,
            function::table(self),
            trouble::table(self),
        ];
        let table = weighted(tables.concat());
        let factors = if std::env::var_os("UNEVEN").is_some() { FACTORS } else { &[1] };
        let factors = vec(select(factors), table.len()).no_shrink();
        factors.prop_map(move |factors| {
            let all = table.iter().zip(factors).filter(|(_, factor)| *factor > 0);
            let all = all.map(|((weight, it), factor)| (weight * factor, it.clone()));
            Union::new_weighted(all.collect()).boxed()
        })
    }
}
