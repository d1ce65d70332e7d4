//! Runtimes of containers: how each freezes what runs in it, and thaws it.
//!
//! By the name that a container's facts have for its runtime. Must not: propose what was not tried.

/// The commands that thaw a container and freeze it again; its name is to follow.
pub fn freezer(runtime: &str) -> Option<(&'static str, &'static str)> {
    match runtime {
        "docker" => Some(("docker unpause", "docker pause")),
        "podman" => Some(("podman unpause", "podman pause")),
        "lxc" => Some(("lxc-unfreeze -n", "lxc-freeze -n")),
        _ => None,
    }
}
