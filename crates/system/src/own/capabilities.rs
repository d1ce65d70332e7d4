//! What this process may do: capabilities(7), a bit each.
//!
//! Read from /proc/self/status, because capget(2) has a struct of its own for what is one line. Must not: change them.

/// The own ones, a bit each (capabilities(7)).
pub fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
