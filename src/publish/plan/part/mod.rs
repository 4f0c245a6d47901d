//! Plans for a part of a cluster: the Services that a run covers (`affected`), the data that such a plan needs
//! (`rest`), the services to list since discovery cannot decide them (`doubt`), and the data to read again before the
//! changes of one turn are decided (`narrow`).

pub mod affected;
pub mod doubt;
pub mod narrow;
pub mod rest;
