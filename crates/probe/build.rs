//! Compiles the kernel programs and generates the reader's types from their BTF.
//!
//! One object out of `bpf/holdup.bpf.c`; the target architecture decides the register layout. The names of its types are written
//! beside it: by them src/kernel/kernel_types.rs knows which of the kernel's types are read.
//! Needs clang; says so if it is missing (the Makefile installs it).

use libbpf_cargo::SkeletonBuilder;
use libbpf_rs::btf::{Btf, BtfType, TypeId};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let object = out.join("holdup.bpf.o");
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
        .obj(&object)
        .build_and_generate(out.join("holdup.skel.rs"));
    if let Err(error) = built {
        println!("cargo:warning=the kernel programs do not build: {error:#}");
        println!("cargo:warning=clang is needed (apt-get install clang); `make build` installs it");
        std::process::exit(1);
    }
    if let Err(error) = write_type_names(&object, &out.join("type_names.txt")) {
        println!("cargo:warning=the types of the kernel programs cannot be read: {error}");
        std::process::exit(1);
    }
}

/// One a line.
fn write_type_names(object: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let btf = Btf::from_path(object)?;
    let name = |id| {
        let of: BtfType<'_> = btf.type_by_id(TypeId::from(id))?;
        Some(of.name()?.to_string_lossy().into_owned())
    };
    let names: BTreeSet<String> = (1..btf.len() as u32).filter_map(name).collect();
    let lines: Vec<String> = names.into_iter().collect();
    Ok(std::fs::write(to, lines.join("\n"))?)
}
