//! Numbers and names as a person reads them. Text only; no rule here.
//!
//! Names stay unescaped (the printer escapes). Three significant digits are enough for a person; the exact
//! figures are in the evidence.

use crate::facts::ThreadRef;

/// A time: `4.98 s`, `12.3 ms`, `20 min`, `850 us`.
pub fn seconds(seconds: f64) -> String {
    let s = seconds.abs();
    match s {
        _ if s >= 7200.0 => format!("{:.1} h", seconds / 3600.0),
        _ if s >= 600.0 => format!("{:.0} min", seconds / 60.0),
        _ if s >= 100.0 => format!("{seconds:.0} s"),
        _ if s >= 10.0 => format!("{seconds:.1} s"),
        _ if s >= 1.0 => format!("{seconds:.2} s"),
        _ if s >= 0.1 => format!("{:.0} ms", seconds * 1e3),
        _ if s >= 0.01 => format!("{:.1} ms", seconds * 1e3),
        _ if s >= 0.001 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

/// How much of a victim's time a wait takes: its share, or, if several threads wait side by side, how many.
pub fn of_time(share: f64, waited: f64, wall: f64) -> String {
    if waited > wall * 1.02 {
        format!(
            "{:.1} threads on average wait ({} in {})",
            waited / wall.max(1e-9),
            seconds(waited),
            seconds(wall)
        )
    } else {
        format!(
            "{} of its time ({} of {}) is spent waiting",
            percent(share),
            seconds(waited),
            seconds(wall)
        )
    }
}

/// Time that passes within a window: `3.20 s of 5.00 s`. Waits of several threads may add up to more than the window:
/// `8.01 s (2.0 threads at a time in 4.00 s)`.
pub fn of_window(spent: f64, wall: f64) -> String {
    if spent > wall * 1.02 {
        let at_a_time = spent / wall.max(1e-9);
        format!("{} ({at_a_time:.1} threads at a time in {})", seconds(spent), seconds(wall))
    } else {
        format!("{} of {}", seconds(spent), seconds(wall))
    }
}

/// A share of something: `71 %`.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p < 10.0 && p > 0.0 { format!("{p:.1} %") } else { format!("{p:.0} %") }
}

/// A rate: `5.0`, `120`.
pub fn rate(per_second: f64) -> String {
    if per_second >= 100.0 {
        format!("{per_second:.0}")
    } else if per_second >= 10.0 {
        format!("{per_second:.1}")
    } else {
        format!("{per_second:.2}")
    }
}

/// A large rate with its thousands apart: `622,623`.
pub fn thousands(per_second: f64) -> String {
    let digits = format!("{per_second:.0}");
    let parts: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    parts.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join(",")
}

/// An amount of memory or data: `256 MiB`.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 || (value - value.round()).abs() < 0.005 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A process: `nginx 812`, with its thread if that is another: `nginx 812/815`.
pub fn who(thread: &ThreadRef) -> String {
    let name = if thread.comm.is_empty() { "pid" } else { &thread.comm };
    if thread.tid == thread.pid {
        format!("{name} {}", thread.pid)
    } else {
        format!("{name} {}/{}", thread.pid, thread.tid)
    }
}

/// `1 process`, `3 processes`.
pub fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// CPUs as a person writes them: `0-3,8`.
pub fn cpus(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == cpu => *end = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// A word safe inside single quotes of a shell.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A value as somebody would set it, not below what is wanted: two digits, of bytes in MiB where there is one.
pub fn rounded_up(wanted: f64, is_bytes: bool) -> u64 {
    const MIB: f64 = 1_048_576.0;
    const TEN: f64 = 10.0;
    let unit = if is_bytes && wanted >= MIB { MIB } else { 1.0 };
    let digits = (wanted / unit).max(1.0).log10().floor();
    let step = TEN.powf(digits - 1.0).max(1.0);
    (((wanted / unit / step).ceil() * step) * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        assert_eq!(seconds(4.977), "4.98 s");
        assert_eq!(seconds(0.0123), "12.3 ms");
        assert_eq!(seconds(1201.0), "20 min");
        assert_eq!(seconds(0.00085), "850 us");
    }

    #[test]
    fn more_time_than_a_window_has_is_that_of_several() {
        assert_eq!(of_window(3.2, 5.0), "3.20 s of 5.00 s");
        assert_eq!(of_window(5.01, 5.0), "5.01 s of 5.00 s");
        assert_eq!(of_window(8.01, 4.0), "8.01 s (2.0 threads at a time in 4.00 s)");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(thousands(622_623.4), "622,623");
        assert_eq!(thousands(12.0), "12");
    }

    #[test]
    fn data_is_reported_in_binary_units() {
        assert_eq!(bytes(268_435_456.0), "256 MiB");
        assert_eq!(bytes(1_572_864.0), "1.5 MiB");
    }

    #[test]
    fn cpus_are_written_as_ranges() {
        assert_eq!(cpus(&[3, 0, 1, 2, 8]), "0-3,8");
        assert_eq!(cpus(&[1]), "1");
    }

    #[test]
    fn hostile_words_stay_one_word() {
        assert_eq!(shell("/tmp/a b'c"), "'/tmp/a b'\\''c'");
        assert_eq!(shell("/tmp/x"), "/tmp/x");
    }
}
