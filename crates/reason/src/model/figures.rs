//! Figures as a person reads them: three digits that mean something, and always a unit.
//!
//! The only place that writes one for people: sentences of rules and answers, the text, and, by the same table of examples
//! (tests/browser/figures.json), the page's script. The JSON has the plain numbers beside them. What is to be added up by its reader (the
//! accounting of the text) has one unit and as many decimals in every row instead, and is not written here. Rejected: a crate for human durations, which prints
//! `3s 550ms 120us` and so more digits than were measured.
//!
//! Edit together: crates/report/src/page/template/core.js, tests/browser/figures.json.

/// A length of time: `4.2 ms`, `3.55 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`.
pub fn seconds(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "an unknown time".into();
    }
    match size {
        _ if size < 0.5e-9 => "0 s".into(),
        _ if size < 0.999_5e-6 => format!("{} ns", digits(value * 1e9)),
        _ if size < 0.999_5e-3 => format!("{} us", digits(value * 1e6)),
        _ if size < 0.999_5 => format!("{} ms", digits(value * 1e3)),
        _ if size < 99.95 => format!("{} s", digits(value)),
        _ if size < 3600.0 => pair(value, 60, "min", "s", 1),
        _ if size < 86_400.0 => pair(value, 3600, "h", "min", 60),
        _ => pair(value, 86_400, "d", "h", 3600),
    }
}

/// A number of bytes: `1 byte`, `512 bytes`, `4 KiB`, `1.5 GiB`.
pub fn bytes(value: f64) -> String {
    const STEPS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if value.abs() < 1024.0 {
        let unit = if value == 1.0 { "byte" } else { "bytes" };
        return format!("{} {unit}", digits(value));
    }
    let mut rest = value;
    let mut unit = "";
    for step in STEPS {
        rest /= 1024.0;
        unit = step;
        if rest.abs() < 999.5 {
            break;
        }
    }
    format!("{} {unit}", digits(rest))
}

/// A count: `7`, `12,345`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share of a whole: `71 %`, `0.4 %`, `under 0.1 %`; nothing if there is no whole.
pub fn share(part: f64, whole: f64) -> String {
    let percent = 100.0 * part / whole;
    match percent {
        p if !p.is_finite() => String::new(),
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.05 => "under 0.1 %".into(),
        p if p > 99.0 && p < 100.0 => "over 99 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// A share, 0 to 1: `71 %`.
pub fn percent(share: f64) -> String {
    self::share(share, 1.0)
}

/// A large rate with its thousands apart: `622,623`.
pub fn thousands(per_second: f64) -> String {
    count(per_second.round() as u64)
}

/// A rate, of which several stand side by side: `0.78`, `12.3`, `120`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        it if it >= 99.95 => format!("{it:.0}"),
        it if it >= 9.995 => format!("{it:.1}"),
        it => format!("{it:.2}"),
    }
}

/// A rate of a link: `820 bit/s`, `12.3 kbit/s`, `1.20 Gbit/s`, each step a thousand.
pub fn bits(per_second: f64) -> String {
    match per_second {
        it if it >= 999.5e6 => format!("{} Gbit/s", rate(it / 1e9)),
        it if it >= 999.5e3 => format!("{} Mbit/s", rate(it / 1e6)),
        it if it >= 999.5 => format!("{} kbit/s", rate(it / 1e3)),
        it => format!("{it:.0} bit/s"),
    }
}

/// The value of a checked fact in the unit it names (`findings::Evidence::unit`).
pub fn measured(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "ms" => seconds(value / 1e3),
        "us" => seconds(value / 1e6),
        "ns" => seconds(value / 1e9),
        "bytes" => bytes(value),
        "bytes/s" => format!("{}/s", bytes(value)),
        "1" | "" => digits(value),
        "1/s" => format!("{} a second", digits(value)),
        _ => format!("{} {unit}", digits(value)),
    }
}

/// Three digits that mean something; whole numbers stay whole.
fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "unknown".into();
    }
    if size < 1e15 && value.fract() == 0.0 {
        let text = count(size as u64);
        return if value < 0.0 { format!("-{text}") } else { text };
    }
    match size {
        _ if size >= 99.95 => {
            let text = count(size.round() as u64);
            if value < 0.0 { format!("-{text}") } else { text }
        }
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn pair(value: f64, large: u64, large_unit: &str, small_unit: &str, small: u64) -> String {
    let total = (value.abs() / small as f64).round() as u64;
    let per = large / small;
    let sign = if value < 0.0 { "-" } else { "" };
    match total % per {
        0 => format!("{sign}{} {large_unit}", total / per),
        rest => format!("{sign}{} {large_unit} {rest} {small_unit}", total / per),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (value, reported) in [
            (0.0, "0 s"),
            (1e-17, "0 s"),
            (3.2e-8, "32 ns"),
            (4.2e-5, "42 us"),
            (0.000_999_6, "1.00 ms"),
            (0.0042, "4.20 ms"),
            (0.25, "250 ms"),
            (3.55, "3.55 s"),
            (5.0, "5 s"),
            (59.96, "60.0 s"),
            (725.0, "12 min 5 s"),
            (3599.9, "60 min"),
            (12_000.0, "3 h 20 min"),
            (187_200.0, "2 d 4 h"),
            (f64::NAN, "an unknown time"),
        ] {
            assert_eq!(seconds(value), reported, "{value}");
        }
    }

    #[test]
    fn sizes_counts_and_shares() {
        assert_eq!((bytes(1.0), bytes(512.0)), ("1 byte".into(), "512 bytes".into()));
        assert_eq!((thousands(622_623.4), percent(0.0042)), ("622,623".into(), "0.4 %".into()));
        assert_eq!([0.784, 12.34, 119.7].map(rate), ["0.78", "12.3", "120"]);
        let links = [0.0, 999.4, 12_340.0, 999_600.0, 1.2e9].map(bits);
        assert_eq!(links, ["0 bit/s", "999 bit/s", "12.3 kbit/s", "1.00 Mbit/s", "1.20 Gbit/s"]);
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(1_073_741_824.0 * 1.5), "1.50 GiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(share(3.55, 5.0), "71 %");
        assert_eq!(share(0.02, 5.0), "0.4 %");
        assert_eq!(share(0.0001, 5.0), "under 0.1 %");
        assert_eq!(share(4.99, 5.0), "over 99 %");
        assert_eq!(share(5.0, 5.0), "100 %");
        assert_eq!(share(1.0, 0.0), "");
        assert_eq!(measured(5.0, "1/s"), "5 a second");
        assert_eq!(measured(0.4, "ms"), "400 us");
        assert_eq!(measured(3.0, "%"), "3 %");
        assert_eq!(measured(12_345.0, "1"), "12,345");
    }

    /// The page's script is held to the same examples (tests/browser/test_figures.py).
    #[test]
    fn the_page_writes_figures_as_the_text_does() {
        const EXAMPLES: &str = include_str!("../../../../tests/browser/figures.json");
        type Examples = std::collections::BTreeMap<String, Vec<(f64, String)>>;
        let examples: Examples = serde_json::from_str(EXAMPLES).unwrap();
        assert_eq!(examples.len(), 4);
        for (function, rows) in examples {
            let write = match function.as_str() {
                "seconds" => seconds,
                "percent" => percent,
                "bytes" => bytes,
                _ => digits,
            };
            for (value, written) in rows {
                assert_eq!(write(value), written, "{function} of {value}");
            }
        }
    }
}
