//! `docs/kernels.md`: the matrix of a whole run of lab-vm as a page.
//!
//! The words are those of the guests: verdict, the line of holdup that decided, and the fault's own proof. Must not
//! judge (checks.rs) and must not leave a check out. Kernels may have been asked on different days: each says its own.
//! Edit together: docs/lab.md, docs/limits.md.

use super::{Cell, count};
use std::fmt::Write;

/// The page.
pub(super) fn page(matrix: &[Cell]) -> String {
    let mut kernels: Vec<&str> = matrix.iter().map(|cell| cell.version.as_str()).collect();
    kernels.dedup();
    let mut out = format!(
        "# Other kernels\n\nStock Debian kernels in QEMU without KVM, asked by `make lab-vm` with holdup {}: {}. \
         How it is done: [lab.md](lab.md). To repeat it:\n\n\
         ```console untested=downloads-kernels-and-boots-them\n$ make lab-vm ARGS=--write-docs\n```\n\n\
         `ok`: named as it must be, or rightly silent. `lacks`: not named, and holdup says what it cannot see there. \
         `refused`: the fault's own proof shows that it did not bite. `wrong`: all else.\n\n",
        env!("CARGO_PKG_VERSION"),
        count(matrix)
    );
    // What is asked in a boot of its own is no column: it has nothing to be compared with.
    let asks = |kernel: &str, check: &str| {
        matrix.iter().any(|cell| cell.version == kernel && cell.check == check)
    };
    let first_check = matrix.first().map_or("", |cell| cell.check.as_str());
    let columns: Vec<&str> =
        kernels.iter().copied().filter(|kernel| asks(kernel, first_check)).collect();
    let _ = writeln!(out, "| check | {} |", columns.join(" | "));
    let _ = writeln!(out, "| --- |{}", " --- |".repeat(columns.len()));
    let mut checks: Vec<&str> = Vec::new();
    for cell in matrix.iter().filter(|cell| columns.contains(&cell.version.as_str())) {
        if !checks.contains(&cell.check.as_str()) {
            checks.push(&cell.check);
        }
    }
    for check in checks {
        let verdict = |kernel: &&str| {
            let cell = matrix.iter().find(|c| c.check == check && c.version == **kernel);
            cell.map_or("not run", |cell| cell.seen.verdict)
        };
        let verdicts: Vec<&str> = columns.iter().map(verdict).collect();
        let _ = writeln!(out, "| {check} | {} |", verdicts.join(" | "));
    }
    for kernel in kernels {
        let first = matrix.iter().find(|cell| cell.version == kernel);
        let (asked, boot) = first.map_or(("", 1), |cell| (&cell.asked, cell.boot));
        let again = if boot > 1 {
            format!(" in boot {boot}: before, its guest died on the way")
        } else {
            String::new()
        };
        let _ = writeln!(out, "\n## {kernel}, asked on {asked}{again}\n");
        let _ = writeln!(out, "| check | verdict | what decided | the fault's own proof |");
        let _ = writeln!(out, "| --- | --- | --- | --- |");
        for cell in matrix.iter().filter(|cell| cell.version == kernel) {
            let plain = |text: &str| text.replace('|', "\\|").replace('\n', " ");
            let (said, effect) = (plain(&cell.seen.said), plain(&cell.seen.effect));
            let _ = writeln!(out, "| {} | {} | {said} | {effect} |", cell.check, cell.seen.verdict);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::checks::Seen;
    use super::*;

    #[test]
    fn each_kernel_is_a_column_and_what_it_said_is_reported() {
        let cell = |version: &str, verdict| Cell {
            kernel: version.into(),
            version: version.into(),
            asked: "2026-01-31".into(),
            boot: if version == "6.1.0" { 2 } else { 1 },
            check: if version.contains("isolcpus") { "isolated" } else { "flock" }.into(),
            seen: Seen { verdict, said: "a | b".into(), effect: "1 waiting".into() },
        };
        let other = cell("6.1.0 isolcpus=1", "refused");
        let page = page(&[cell("5.10.0", "ok"), cell("6.1.0", "wrong"), other]);
        assert!(
            page.contains(
                "| check | 5.10.0 | 6.1.0 |\n| --- | --- | --- |\n| flock | ok | wrong |\n"
            )
        );
        assert!(page.contains("| flock | wrong | a \\| b | 1 waiting |"), "{page}");
        assert!(page.contains("1 ok, 1 refused, 1 wrong"), "{page}");
        assert!(page.contains("## 6.1.0 isolcpus=1, asked on"), "{page}");
        assert!(page.contains("| isolated | refused |"), "{page}");
        assert!(page.contains("## 5.10.0, asked on 2026-01-31\n"), "{page}");
        assert!(
            page.contains("## 6.1.0, asked on 2026-01-31 in boot 2: before, its guest died"),
            "{page}"
        );
    }
}
