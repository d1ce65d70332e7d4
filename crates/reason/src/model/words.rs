//! Names and turns of phrase as a person reads them. Text only; no rule here.
//!
//! Names stay unescaped (the printer escapes). How a figure is written is in figures.rs, which is offered here as well.

use crate::facts::ThreadRef;
pub use crate::model::figures::{bytes, percent, rate, seconds, thousands};

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
/// `8.01 s (2.0 threads at a time in 4 s)`.
pub fn of_window(spent: f64, wall: f64) -> String {
    if spent > wall * 1.02 {
        let at_a_time = spent / wall.max(1e-9);
        format!("{} ({at_a_time:.1} threads at a time in {})", seconds(spent), seconds(wall))
    } else {
        format!("{} of {}", seconds(spent), seconds(wall))
    }
}

/// A process: `nginx 812`, with its thread if that is another: `nginx 812/815`. A thread that may have a name of its own is named
/// by `Threads::who`, which knows its program.
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

/// ` (one of 4)`, of a process that did something together with others of its name; nothing of one alone.
pub fn one_of(count: usize) -> String {
    if count > 1 { format!(" (one of {count})") } else { String::new() }
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

/// A word safe in a shell. What is printed has no control characters, so those are written in the quotes that know escapes (bash, zsh, ksh).
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else if word.contains(char::is_control) {
        format!("$'{}'", word.chars().map(escaped).collect::<String>())
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Without a quote: whoever breaks a command into lines finds the end of the word at the next one.
fn escaped(c: char) -> String {
    match c {
        '\\' => r"\\".into(),
        '\n' => r"\n".into(),
        c if c.is_control() || c == '\'' => {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
        }
        c => c.to_string(),
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
    fn more_time_than_a_window_has_is_that_of_several() {
        assert_eq!(of_window(3.2, 5.0), "3.20 s of 5 s");
        assert_eq!(of_window(5.01, 5.0), "5.01 s of 5 s");
        assert_eq!(of_window(8.01, 4.0), "8.01 s (2.0 threads at a time in 4 s)");
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
        assert_eq!(shell("a\n'b\\\u{1b}[3"), r"$'a\n\x27b\\\x1b[3'");
    }
}
