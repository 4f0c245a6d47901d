//! Plans for a part of a cluster: the Services that a run covers (`affected`), the data that such a plan needs
//! (`rest`), the registrations that a full sync makes first (`first`), and the data to read again before the changes of
//! one turn are decided (`narrow`).

pub mod affected;
pub mod first;
pub mod narrow;
pub mod rest;
