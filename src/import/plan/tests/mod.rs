//! The rules of an import as tables of cases, and its promises on random worlds. `cluster` is an API server in memory
//! that refuses what a real one refuses; `world` has the rest of the input, and `arbitrary` makes random ones.

mod arbitrary;
mod belief;
mod cluster;
mod guard;
mod held;
mod lifecycle;
mod objects;
mod promises;
mod refused;
mod removal;
mod renames;
mod sentences;
mod slices;
mod step;
mod world;
