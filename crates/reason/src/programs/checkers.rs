//! Programs that look after others, each at a pace of its own, and that nobody asks anything: what they are refused holds nobody up.
//!
//! A proxy does that too, and has listeners by which it is known (rules/process/own_pace.rs): no name is needed for it.
//! Must not: hold a program that waits for what it tries.

/// Whether processes of this name do nothing else.
pub fn checks_others(process: &str) -> bool {
    const NAMES: [&str; 6] =
        ["keepalived", "monit", "smokeping", "blackbox_export", "blackbox_exporter", "gatus"];
    NAMES.contains(&process)
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_looks_after_others_is_known_and_a_client_is_not() {
        assert!(super::checks_others("keepalived"));
        assert!(!super::checks_others("psql"));
    }
}
