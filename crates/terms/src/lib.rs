//! The words of the house. Everything else stands on this crate; it stands on nothing of ours.

pub mod measurement;
