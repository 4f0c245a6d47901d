//! The instances of one name: which should stand there (`wanted`, with `shape`, `maximum`, `subset` and
//! `sharing`) and under which ids (`identity`), which stand there (`present`), and what lies between
//! (`compare` makes a `comparison`, with `rewrite` and `health`).

pub mod compare;
pub mod comparison;
pub mod health;
pub mod identity;
pub mod maximum;
pub mod present;
pub mod rewrite;
pub mod shape;
pub mod sharing;
pub mod subset;
pub mod wanted;
