//! `kubectl cloudmap` as a person runs it: the plugin's binary in an environment of its own, before the sandbox's
//! Lambda, behind which the function's binary runs (`through_function`), or all in the plugin's own process (`local`,
//! which also has what goes wrong); `approval` is about what it asks for first, `profiles` about who asks, `pipelines`
//! about what runs by itself. `terminal` is what the person has.

mod approval;
mod local;
mod pipelines;
mod profiles;
mod terminal;
mod through_function;
