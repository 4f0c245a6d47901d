//! The instances of one name: those that its holders want (`endpoints` makes `wanted` of `shape` and `ports`, chosen by
//! `subset` if there are too many, each with an `identity`), those that are registered (`present`), which of several
//! holders gets which (`sharing`), and the difference (`compare` makes a `diff`, with `rewrite` and `health`).

pub mod compare;
pub mod diff;
pub mod endpoints;
mod exported;
pub mod health;
pub mod identity;
mod ports;
pub mod present;
pub mod rewrite;
pub mod shape;
pub mod sharing;
pub mod subset;
pub mod wanted;
