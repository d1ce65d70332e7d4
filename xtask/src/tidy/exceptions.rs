//! The exceptions from house rules that count, each with its reason: the only list of its kind.
//!
//! What a file can say of itself (a long function, a long file) it says in its own comment. Here is what is true of a type, or of a place that
//! many files name, and would be said nowhere else. An entry that is needed no more is refused, so that the list does not outlive its
//! reasons. Must not: hold an exception without a reason that a reader would accept.

/// A file or folder of `crates/reason/src/` that may name a program, and why.
pub(super) const NAME_PROGRAMS: &[(&str, &str)] = &[
    ("programs/", "it is their home"),
    ("model/kernel_threads.rs", "the same for threads of the kernel"),
    ("model/terminal.rs", "`ptm` is a side of a terminal, as the kernel calls it"),
    ("facts/cgroup.rs", "runtimes of containers are values of a fact, as recordings have them"),
];

/// A type that has more fields or methods than others may: where it is, its name (empty: all types there), and why it is one notion.
pub(super) const LARGE_TYPES: &[(&str, &str, &str)] = &[
    (
        "crates/reason/src/facts/",
        "",
        "a fact has the fields of the kernel's struct or file that it was read from, and recordings have them side by side",
    ),
    (
        "crates/reason/src/answer/report.rs",
        "Finding",
        "the contract of --json: its fields stand side by side there, and are only added",
    ),
    ("crates/reason/src/answer/report.rs", "AnswerEnd", "the same of an end"),
    ("crates/reason/src/answer/compare/contract.rs", "Comparison", "the same of diff --json"),
    (
        "crates/reason/src/graph/end.rs",
        "End",
        "a row of the table of ends, which all leaves are added to in one place: what it is, who loses by it, who holds it, and the \
         chain to show. The parts that only adding needs are private; rules read the rest in some two hundred places",
    ),
    (
        "crates/probe/src/host.rs",
        "Offer",
        "what one look at the host's kernel has found: a field a difference between kernels, which plan.rs and fitting.rs alone read",
    ),
    (
        "crates/stacks/src/python/layouts.rs",
        "Layout",
        "a table of offsets, one column an interpreter's release: a field each",
    ),
    (
        "crates/stacks/src/javascript/tables.rs",
        "",
        "the same of V8, by the names that it writes down",
    ),
];

/// A file that much of its crate imports, and why that does no harm.
pub(super) const NAMED_BY_MANY: &[(&str, &str)] = &[
    ("crates/reason/src/facts/mod.rs", "the vocabulary of observations: fields are only added"),
    ("crates/reason/src/facts/thread_ref.rs", "who: four fields that have not changed"),
    ("crates/reason/src/facts/thread.rs", "of the same vocabulary: a thread as it was read"),
    (
        "crates/reason/src/facts/object.rs",
        "of the same vocabulary: what is waited for, as it was read",
    ),
    (
        "crates/reason/src/model/mod.rs",
        "the index that every step asks; its areas are types of their own",
    ),
    ("crates/reason/src/model/object.rs", "typed identity: what else would name an object"),
    ("crates/reason/src/model/figures.rs", "how figures are written, once"),
    ("crates/reason/src/model/words.rs", "how names are written, once"),
    ("crates/reason/src/waits/mod.rs", "the closed list of classes of waits"),
    ("crates/reason/src/waits/span.rs", "one wait"),
    (
        "crates/reason/src/graph/index/mod.rs",
        "what every step and way of the graph asks; its areas are types of their own",
    ),
    (
        "crates/reason/src/graph/next.rs",
        "what each way from a waiter to whom it waits for answers with: one way, one file",
    ),
    (
        "crates/reason/src/graph/ways/way.rs",
        "what each way is asked with, and how it says where it leads: one way, one file",
    ),
    ("crates/reason/src/graph/end.rs", "what every rule is asked about"),
    ("crates/reason/src/measure/mod.rs", "what every rule reads; its areas are types of their own"),
    ("crates/reason/src/threshold.rs", "a number with its unit, reason and source"),
    ("crates/reason/src/rules/rule.rs", "what every rule consists of"),
    ("crates/reason/src/rules/wording.rs", "what every rule says"),
    ("crates/reason/src/rules/remedy.rs", "what every rule advises"),
    ("crates/reason/src/rules/proof.rs", "what every rule is sure by"),
    ("crates/reason/src/rules/action.rs", "what every way out does, typed"),
];

/// What may be called a note: the least severity of a finding, and what prints such findings.
pub(super) const OF_THE_LEAST_SEVERITY: &[(&str, &str)] = &[
    ("crates/reason/src/rules/wording.rs", "Note"),
    ("crates/report/src/text/finding.rs", "note"),
];
