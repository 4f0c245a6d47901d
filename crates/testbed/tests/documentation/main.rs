//! The pages for users agree with each other, with the settings and with template.yaml's parameters; their commands are
//! those that the programs take, and README.md stays short.

mod commands;
mod links;
mod pages;
mod releases;
mod schemas;
mod settings;

const TEMPLATE: &str = include_str!("../../../../template.yaml");
