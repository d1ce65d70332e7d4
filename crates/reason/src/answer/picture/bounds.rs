//! How much of a look a picture holds: what is drawn has so many pixels, and a page is to open at once on a phone.
//!
//! Whatever is left out here is counted and said on the page; the recording has it. Must not: bound what is computed (the
//! answer is of everything), or cut a command that somebody will type.
//!
//! Edit together: the report crate's page/embedded.rs (which bounds the answer itself), docs/page.md.

/// Slices of the window in which what is lost to each end is added up: finer than a screen shows.
pub(super) const SLICES: usize = 240;
/// Ends drawn over time one by one; the rest is one.
pub(super) const ENDS_OVER_TIME: usize = 16;
/// Ends that have lanes of their own.
pub(super) const ENDS_WITH_LANES: usize = 12;
/// Hops of one chain; deeper ones are cut.
pub(super) const HOPS: usize = 12;
/// Lines of threads altogether.
pub(super) const LINES: usize = 40;
/// Pieces of all lines together.
pub(super) const PIECES: usize = 4_000;
/// Different labels of pieces; beyond it only what kind of wait it is.
pub(super) const WORDS: usize = 600;
/// Characters of a label.
pub(super) const LABEL: usize = 96;
/// Nodes of the blockers' tree.
pub(super) const NODES: usize = 360;
/// Children of a node of it that stand alone.
pub(super) const CHILDREN: usize = 24;
/// Points of a curve.
pub(super) const POINTS: usize = 160;
/// CPUs with a curve of their own: the busiest.
pub(super) const CPUS: usize = 16;
/// Disks and packet queues with curves: the busiest.
pub(super) const DEVICES: usize = 6;
/// Rows of the table of queues.
pub(super) const QUEUES: usize = 24;
/// Frames of one flame graph.
pub(super) const FLAME_FRAMES: usize = 500;
/// Stacks altogether.
pub(super) const STACKS: usize = 36;
/// Frames of a stack.
pub(super) const FRAMES: usize = 32;

/// A label of bounded length: both ends of a path stay readable.
pub(super) fn clipped(text: &str) -> String {
    let count = text.chars().count();
    if count <= LABEL {
        return text.to_string();
    }
    let (head, tail) = (LABEL * 3 / 5, LABEL - LABEL * 3 / 5 - 1);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{begin}…{end}")
}

/// Four significant digits: more is not seen, and a third of the page would be digits.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_both_ends() {
        let path = format!("/srv/{}/file.db", "ü".repeat(5000));
        let label = clipped(&path);
        assert_eq!(label.chars().count(), LABEL);
        assert!(label.starts_with("/srv/ü") && label.ends_with("/file.db"), "{label}");
        assert_eq!(clipped("short"), "short");
    }

    #[test]
    fn figures_have_four_digits() {
        for (value, shown) in
            [(1234.567, 1235.0), (0.000_123_456, 0.000_123_5), (0.0, 0.0), (-2.0, -2.0)]
        {
            assert!((rounded(value) - shown).abs() < 1e-12, "{value}");
        }
        assert_eq!(rounded(f64::NAN), 0.0);
        assert_eq!(rounded(1e-310), 1e-310);
    }
}
