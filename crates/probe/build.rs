//! Compiles the kernel programs and generates the reader's types from their BTF.
//!
//! One object out of `bpf/holdup.bpf.c`; the target architecture decides the register layout.
//! Needs clang; says so if it is missing (the Makefile installs it).

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("holdup.skel.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let target = match arch.as_str() {
        "aarch64" => "arm64",
        _ => "x86",
    };
    // Line numbers name the files: by a path that is the same wherever it is built.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=bpf");
    let built = SkeletonBuilder::new()
        .source("bpf/holdup.bpf.c")
        .clang_args([
            format!("-D__TARGET_ARCH_{target}"),
            "-Wall".into(),
            "-Werror".into(),
            "-mcpu=v3".into(),
            format!("-ffile-prefix-map={here}=/holdup/crates/probe"),
            "-fdebug-compilation-dir=/holdup/crates/probe".into(),
        ])
        .build_and_generate(&out);
    if let Err(error) = built {
        println!("cargo:warning=the kernel programs do not build: {error:#}");
        println!("cargo:warning=clang is needed (apt-get install clang); `make build` installs it");
        std::process::exit(1);
    }
}
