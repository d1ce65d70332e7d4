//! Programs that hold a port of the host for a container or a service in another network namespace.
//!
//! Owns their names alone. Who connects to such a port from this host is mostly translated before he comes to them, so that a listener there says
//! nothing of who answers. Must not: say where a connection leads (translations do, where they were read). Rejected: any listener on a port that a
//! filter names, which is no proof that it took this connection elsewhere. Edit together: rules/process/ended_connection.rs.

const ALL: &[&str] = &["docker-proxy", "kube-proxy", "rootlessport", "rootlesskit", "conmon"];

/// Whether a process of this name does.
pub fn hold_ports(comm: &str) -> bool {
    ALL.contains(&comm)
}
