//! Every rule of the merge as a table of cases, and its promises as properties. `notation` writes exports and their
//! outcome in few words.

mod decisions;
mod families;
mod notation;
mod ports;
mod promises;
mod properties;
