//! The clock, the switch and the log of delays, which loads and the lab share.
//!
//! The switch is a file that is there while something is wrong, so that a load goes wrong without being started anew; what it holds
//! is for the load that reads it. The log of delays (`LAB_DELAYS`) is a truth for the lab, `END DELAY` in seconds, one
//! line each. Neither may lie on a disk that the scenario slows.
//!
//! Edit together: `lab/load/ops.h`, the programs there.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Now, seconds of CLOCK_MONOTONIC: the same clock in every process and network namespace.
pub fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn append_to(variable: &str) -> anyhow::Result<Option<File>> {
    let Some(path) = std::env::var_os(variable) else { return Ok(None) };
    Ok(Some(OpenOptions::new().append(true).create(true).open(path)?))
}

/// Where delays are written down for the lab.
#[derive(Debug)]
pub struct Delays(Option<File>);

impl Delays {
    /// The log that the environment names, or one that forgets.
    pub fn open() -> anyhow::Result<Self> {
        Ok(Self(append_to("LAB_DELAYS")?))
    }

    /// Something that ended at `end` ([`now`]) was under way for `delay` seconds.
    pub fn took(&self, end: f64, delay: f64) {
        if let Some(file) = &self.0 {
            let _: std::io::Result<()> =
                (&*file).write_all(format!("{end:.6} {delay:.6}\n").as_bytes());
        }
    }
}

/// The delays in the log at `path` of what ended in `from..to` ([`now`]), sorted.
pub fn delays(path: &Path, from: f64, to: f64) -> anyhow::Result<Vec<f64>> {
    Ok(parse_delays(&std::fs::read_to_string(path)?, from, to))
}

fn parse_delays(log: &str, from: f64, to: f64) -> Vec<f64> {
    let mut delays: Vec<f64> = log
        .lines()
        .filter_map(|line| {
            let (end, delay) = line.split_once(' ')?;
            let end: f64 = end.parse().ok()?;
            (from..to).contains(&end).then(|| delay.parse().ok())?
        })
        .collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// A file that is there while something is wrong.
#[derive(Debug, Clone, Default)]
pub struct Switch(Option<PathBuf>);

impl From<Option<PathBuf>> for Switch {
    fn from(path: Option<PathBuf>) -> Self {
        Self(path)
    }
}

impl Switch {
    /// What it holds, while it is there.
    pub fn text(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.0.as_ref()?).ok()?;
        Some(text.trim().to_owned())
    }

    /// The milliseconds that it holds, while it is there.
    pub fn milliseconds(&self) -> Option<Duration> {
        let milliseconds: f64 = self.text()?.parse().ok()?;
        Duration::try_from_secs_f64(milliseconds / 1e3).ok()
    }

    /// Sleeps for the milliseconds that it holds; not at all while it is not there.
    pub fn pause(&self) {
        if let Some(pause) = self.milliseconds().filter(|pause| !pause.is_zero()) {
            std::thread::sleep(pause);
        }
    }

    /// Sleeps while it is there.
    pub fn wait_gone(&self) {
        while self.text().is_some() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Switch, parse_delays};

    #[test]
    fn only_the_window_counts() {
        let log = "1.0 0.5\n2.5 0.3\n2.0 0.1\n3.0 9.0\nbroken\n";
        assert_eq!(parse_delays(log, 2.0, 3.0), [0.1, 0.3]);
    }

    #[test]
    fn a_switch_is_its_file() {
        let path = std::env::temp_dir().join(format!("lab-switch-{}", std::process::id()));
        let switch = Switch::from(Some(path.clone()));
        assert_eq!(switch.text(), None);
        std::fs::write(&path, "250\n").expect("write");
        assert_eq!(switch.milliseconds().map(|d| d.as_millis()), Some(250));
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(switch.milliseconds(), None);
    }
}
