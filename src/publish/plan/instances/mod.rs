//! The instances of one name: those that its holders want (`endpoints` makes `wanted` of `shape`,
//! chosen as `subset` says if there are too many, each with an `identity`), those that are registered (`present`), who of several holders
//! gets which (`sharing`), and what lies between (`compare` makes a `diff`, with `rewrite` and `health`).

pub mod compare;
pub mod diff;
pub mod endpoints;
pub mod health;
pub mod identity;
mod ports;
pub mod present;
pub mod rewrite;
pub mod shape;
pub mod sharing;
pub mod subset;
pub mod wanted;
