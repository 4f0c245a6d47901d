//! Plans for a part of a cluster: which Services a run is about (`affected`), what such a plan rests on
//! (`rest`), what is to be listed since a look from afar cannot decide it (`doubt`), and what is read again before the
//! changes of one turn are decided for good (`narrow`).

pub mod affected;
pub mod doubt;
pub mod narrow;
pub mod rest;
