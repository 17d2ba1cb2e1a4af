//! Our blueprints against what the pinned toolkit's modules declare: `blueprints/v1.39.0.json`, extracted from its source.

mod conditions;
mod expand;
mod gate;
