//! Speed of each format.

fn main() {}
