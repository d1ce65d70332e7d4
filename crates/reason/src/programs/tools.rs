//! Tools with subcommands of which nothing else is known: builders, container and package tools, administration.
//!
//! Must not: hold a program with more than a command line; that has a file of its own.

use super::command_line::CommandLine;
use super::program::Program;

/// See the head of the file.
pub(super) static TOOLS: Program = Program {
    command_line: Some(CommandLine {
        commands: &[
            "apk",
            "apt",
            "apt-get",
            "btrfs",
            "busybox",
            "cargo",
            "ceph",
            "cmake",
            "crictl",
            "ctr",
            "dnf",
            "docker",
            "go",
            "helm",
            "hg",
            "ip",
            "kubectl",
            "lvm",
            "lxc",
            "nerdctl",
            "npm",
            "nix",
            "openssl",
            "pacman",
            "podman",
            "rclone",
            "restic",
            "rustup",
            "skopeo",
            "snap",
            "svn",
            "systemctl",
            "tc",
            "terraform",
            "yarn",
            "yum",
            "zfs",
            "zpool",
            "zypper",
        ],
        with_value: &[
            "-H",
            "--host",
            "--context",
            "--config",
            "--log-level",
            "-n",
            "--namespace",
            "--kubeconfig",
            "-M",
            "--machine",
            "--root",
        ],
        flags: Some(&["-q", "-v", "-y", "-4", "-6", "--quiet", "--verbose", "--yes"]),
        ..CommandLine::SUBCOMMAND
    }),
    ..Program::UNKNOWN
};
