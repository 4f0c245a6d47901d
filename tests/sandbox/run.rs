//! The sandbox command.
fn main() {}
