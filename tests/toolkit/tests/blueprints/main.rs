//! Checks this repository's blueprints against the declarations of the pinned toolkit's modules:
//! `blueprints/v1.39.0.json`, extracted from its source.

mod conditions;
mod expand;
mod gate;
