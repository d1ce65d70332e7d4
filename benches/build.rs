//! Compiles the floor: the cheapest programs that could be attached where holdup attaches its own.
//!
//! The same way as in crates/probe/build.rs, with the same flags, so that the two can be compared.
//! Needs clang; says so if it is missing (the Makefile installs it).

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("floor.skel.rs");
    println!("cargo:rerun-if-changed=bpf");
    let built = SkeletonBuilder::new()
        .source("bpf/floor.bpf.c")
        .clang_args(["-Wall", "-Werror", "-mcpu=v3"])
        .build_and_generate(&out);
    if let Err(error) = built {
        println!("cargo:warning=the floor does not build: {error:#}");
        println!("cargo:warning=clang is needed (apt-get install clang); `make bench` installs it");
        std::process::exit(1);
    }
}
