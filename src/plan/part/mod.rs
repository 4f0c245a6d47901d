//! Plans for a part of a cluster: which Services a run is about (`affected`), what such a plan rests on
//! (`rest`), and what is read again before the changes of one turn are decided for good (`narrow`).

pub mod affected;
pub mod narrow;
pub mod rest;
