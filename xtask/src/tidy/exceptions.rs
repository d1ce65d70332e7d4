//! The exceptions from house rules that count, each with its reason: the only list of its kind.
//!
//! What a file can say of itself (a long function, a long file) it says in its own comment. Here is what is true of a type, or of a place that
//! many files name, and would be said nowhere else. An entry that is needed no more is refused, so that the list does not outlive its
//! reasons. Must not: hold an exception without a reason that a reader would accept.

/// A file or folder of `crates/reason/src/` that may name a program, and why.
pub const NAME_PROGRAMS: &[(&str, &str)] = &[
    ("programs/", "it is their home"),
    ("model/kernel_threads.rs", "the same for threads of the kernel"),
    ("model/terminal.rs", "`ptm` is a side of a terminal, as the kernel calls it"),
    ("facts/cgroup.rs", "runtimes of containers are values of a fact, as recordings have them"),
];
