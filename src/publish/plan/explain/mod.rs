//! Read off a plan or a registry for people, and deciding nothing: what becomes of each endpoint (`fate`),
//! who has instances where (`party`), and how many there are at the most (`peaks`).

pub mod fate;
pub mod party;
pub mod peaks;
