//! What a process runs, by its command line, where its name does not say that: a subcommand, a script, a module, a class.
//!
//! Ten processes called `git` or `python3` are told apart by it. Must not: repeat what whoever started it wrote into the program's
//! text itself (`-c`, `-e`), nor values of options: behind one that is not known may stand its value, which may be a password, so of a
//! tool with subcommands nothing is said then. Rejected: showing the whole command line: it may hold secrets, and is long.

/// How the command line of a program is read.
pub struct CommandLine {
    /// Names of its commands, without a release at the end.
    pub commands: &'static [&'static str],
    /// Options whose value is a word of its own.
    pub with_value: &'static [&'static str],
    /// Options behind which the program's text stands: there is no name.
    pub inline: &'static [&'static str],
    /// Options whose value is what it runs.
    pub names_it: &'static [&'static str],
    /// Options without a value; of interpreters all that are not named otherwise.
    pub flags: Option<&'static [&'static str]>,
    /// One-letter options may stand together in one word.
    pub letters_together: bool,
    /// What it runs is a class with its packages before it.
    pub is_class: bool,
}

/// The most letters that stand together in one word.
const LETTERS_MAX: usize = 4;

impl CommandLine {
    /// The next word that is no option is a subcommand.
    pub const SUBCOMMAND: Self = Self {
        commands: &[],
        with_value: &[],
        inline: &[],
        names_it: &[],
        flags: Some(&[]),
        letters_together: false,
        is_class: false,
    };

    /// The next word that is no option is a script.
    pub const SCRIPT: Self = Self { flags: None, letters_together: true, ..Self::SUBCOMMAND };

    /// What it runs; none if that does not stand there.
    pub(super) fn runs(&self, words: &[&str]) -> Option<String> {
        let mut rest = words.iter().skip(1).copied();
        while let Some(word) = rest.next() {
            if self.inline.iter().any(|option| self.is(word, option)) {
                return None;
            }
            if self.names_it.iter().any(|option| self.is(word, option)) {
                return self.name(rest.next()?);
            }
            if self.with_value.contains(&word) {
                rest.next();
            } else if !word.starts_with(['-', '+']) {
                return self.name(word);
            } else if !self.stands_alone(word) {
                return None;
            }
        }
        None
    }

    /// Whether the next word is surely not the value of an option.
    fn stands_alone(&self, word: &str) -> bool {
        let says_so = word.contains('=') || word.starts_with("--no-");
        self.flags.is_none_or(|flags| says_so || flags.contains(&word))
    }

    fn is(&self, word: &str, option: &str) -> bool {
        let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
        let together = word.strip_prefix('-').filter(|letters| letters.len() <= LETTERS_MAX);
        word == option
            || match (letter, together) {
                (Some(letter), Some(letters)) if self.letters_together => {
                    letters.chars().all(|it| it.is_ascii_alphabetic()) && letters.ends_with(letter)
                }
                _ => false,
            }
    }

    fn name(&self, word: &str) -> Option<String> {
        let file = word.trim_end_matches('/').rsplit('/').next()?;
        let name = match self.is_class && !file.ends_with(".jar") {
            true => file.rsplit('.').next()?,
            false => file,
        };
        Some(name.to_string()).filter(|name| !name.is_empty())
    }
}

/// The command's name without its folder, a login shell's dash and its release.
pub(super) fn command(word: &str) -> &str {
    let file = word.rsplit('/').next().unwrap_or(word);
    let name = file.trim_start_matches('-');
    let bare = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.' || it == '-');
    if bare.is_empty() { name } else { bare }
}

#[cfg(test)]
mod tests {
    use super::super::runs;
    use proptest::prelude::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        runs(super::command(words[0]), &words)
    }

    #[test]
    fn a_subcommand_stands_behind_the_options_and_their_values() {
        for (line, what) in [
            ("git gc --auto", "gc"),
            (
                "/usr/lib/git-core/git -C /srv/x -c a.b=c --no-pager pack-objects --all",
                "pack-objects",
            ),
            ("docker --context far build .", "build"),
            ("busybox httpd -f", "httpd"),
            ("python3.11 -u -W ignore /srv/app/worker.py --token secret", "worker.py"),
            ("python3 -um http.server 80", "http.server"),
            ("node --require ./x.js /srv/server.js", "server.js"),
            ("java -Xmx1g -cp /a.jar:/b.jar -Da=m org.shop.Main", "Main"),
            ("java -Xmx1g -jar /opt/shop/shop-1.2.jar", "shop-1.2.jar"),
            ("/bin/bash -eu /etc/cron.daily/logrotate", "logrotate"),
            ("-bash ./x.sh", "x.sh"),
            ("perl -w /usr/bin/backup.pl", "backup.pl"),
            ("php -d a=b /srv/artisan queue:work", "artisan"),
        ] {
            assert_eq!(of(line).as_deref(), Some(what), "{line}");
        }
    }

    #[test]
    fn the_programs_own_text_is_no_name_and_a_program_without_either_has_none() {
        for line in [
            "kubectl --token secret get pods",
            "npm --otp 123456 publish",
            "git --unheard-of value gc",
            "bash -c sleep",
            "python3 -Ic print(1)",
            "perl -we 1",
            "php -r 1;",
            "git",
            "sleep 5",
            "-bash",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_name_that_is_another_programs_says_it_already() {
        let words = ["python3", "/usr/bin/gunicorn"];
        assert_eq!(runs("gunicorn", &words), None);
    }

    proptest! {
        #[test]
        fn any_words_do_no_harm(words in prop::collection::vec(".{0,12}", 0..6)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            for command in ["git", "python3", "java", "bash", ""] {
                runs(command, &words);
            }
        }
    }
}
