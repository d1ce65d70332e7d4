//! Programs that copy, and can be limited to do so no faster than a rate: they sleep for it, or read less.
//!
//! Owns the options that set such a rate, read of their manual pages. Their values are no secrets. Must not: hold a program of which more
//! is known; that has a file of its own.

use super::program::{OwnLimit, Program};

/// See the head of the file.
pub(super) static TRANSFERS: Program = Program {
    own_limits: &[
        OwnLimit { commands: &["rsync", "rclone"], options: &["--bwlimit"] },
        OwnLimit { commands: &["curl", "wget", "wget2"], options: &["--limit-rate"] },
        OwnLimit { commands: &["aria2c"], options: ARIA2 },
        OwnLimit { commands: &["axel"], options: &["--max-speed", "-s"] },
        OwnLimit { commands: &["yt-dlp", "youtube-dl"], options: &["--limit-rate", "-r"] },
        OwnLimit { commands: &["iperf"], options: &["--bitrate", "--bandwidth", "-b"] },
        OwnLimit { commands: &["ddrescue"], options: &["--max-read-rate"] },
        OwnLimit { commands: &["pv"], options: &["-L", "--rate-limit"] },
        OwnLimit { commands: &["scp", "sftp"], options: &["-l"] },
        OwnLimit { commands: &["mbuffer"], options: &["-r", "-R"] },
        OwnLimit { commands: &["restic"], options: &["--limit-upload", "--limit-download"] },
        OwnLimit { commands: &["borg"], options: &["--upload-ratelimit", "--remote-ratelimit"] },
        OwnLimit { commands: &["pg_basebackup"], options: &["-r", "--max-rate"] },
    ],
    ..Program::UNKNOWN
};

/// Of aria2c(1).
const ARIA2: &[&str] = &[
    "--max-overall-download-limit",
    "--max-download-limit",
    "--max-overall-upload-limit",
    "--max-upload-limit",
];

impl OwnLimit {
    /// The option with its value, as a command line sets it; none where the value is 0, which these programs take for no limit.
    pub(super) fn set_by(&self, words: &[&str]) -> Option<String> {
        let is_letter = |option: &str| option.len() == 2;
        words.iter().enumerate().skip(1).find_map(|(at, word)| {
            let option = self.options.iter().find(|option| word.starts_with(**option))?;
            match word.strip_prefix(*option)? {
                "" => {
                    let value = words.get(at + 1).filter(|value| !is_zero(value))?;
                    Some(format!("{word} {value}"))
                }
                value if is_zero(value.trim_start_matches('=')) => None,
                value if is_letter(option) || value.starts_with('=') => Some((*word).to_string()),
                _ => None,
            }
        })
    }
}

/// `0`, `0.0`, `0k`; not `0:30,1M`, which is a timetable.
fn is_zero(value: &str) -> bool {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    number.contains('0') && number.chars().all(|c| matches!(c, '0' | '.'))
}

#[cfg(test)]
mod tests {
    use crate::programs::own_limit;

    #[test]
    fn a_rate_that_a_program_was_given_is_read_of_its_command_line() {
        let of = |line: &str| own_limit(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(of("rsync -a --bwlimit=100 a b").as_deref(), Some("--bwlimit=100"));
        assert_eq!(of("/usr/bin/rsync --bwlimit 100 a b").as_deref(), Some("--bwlimit 100"));
        assert_eq!(of("pv -qL100k").as_deref(), None, "letters together are not read");
        assert_eq!(of("pv -L100k f").as_deref(), Some("-L100k"));
        assert_eq!(of("curl --limit-rate 1M http://x").as_deref(), Some("--limit-rate 1M"));
        assert_eq!(of("rsync -a a b"), None);
        let of_aria = "aria2c -q --max-download-limit=300K -d /tmp http://x";
        assert_eq!(of(of_aria).as_deref(), Some("--max-download-limit=300K"));
        assert_eq!(of("aria2c --max-download-limit=0 http://x"), None, "no limit");
        assert_eq!(of("axel -s 10240 http://x").as_deref(), Some("-s 10240"));
        for none in ["rsync --bwlimit=0 a b", "rsync --bwlimit 0 a b", "pv -L0 f", "pv -L 0k f"] {
            assert_eq!(of(none), None, "{none}: no limit");
        }
        assert_eq!(of("curl --limit-rate 0.0 x"), None, "no limit");
        assert_eq!(of("rsync --bwlimit=0.5m a b").as_deref(), Some("--bwlimit=0.5m"));
        let of_hours = "--bwlimit=00:00,512k";
        assert_eq!(of(&format!("rclone copy {of_hours} a b")).as_deref(), Some(of_hours));
        assert_eq!(of("curl --limit-rates x"), None, "another option");
        assert_eq!(of("ls -l x"), None, "another program");
    }
}
