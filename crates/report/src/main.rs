//! holdup.
fn main() {}
