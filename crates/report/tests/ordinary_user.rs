//! A command that an ordinary user runs: the ends that the walks over his own processes must find.
//!
//! Each case knows its end and who is behind it. As root the test becomes nobody for the command that looks; so it runs
//! where CI is root and where a developer is not. Must not: ask for exact times (a walk comes every few milliseconds).

#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod in_time;

use in_time::CommandInTime;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of the wall time, what the expected end must have.
const SHARE_MIN: f64 = 0.6;
/// Nobody on Debian and most others.
const NOBODY: &str = "65534";

/// Name, programs that must be there, the shell's words, the end, and a word that its object, actor or chain must have.
type Case = (&'static str, &'static [&'static str], &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    ("sleep", &[], "sleep 0.6", "sleep", "sleep"),
    ("work", &["perl"], "perl -e '1 while $n++ < 8e7'", "works", "perl"),
    // As another program than it was begun as, and soon over.
    (
        "a function of an interpreter",
        &["python3"],
        "exec python3 crunch.py",
        "works",
        "crunch() of crunch.py",
    ),
    ("a pipeline's producer", &[], "(sleep 0.6; echo done) | cat", "sleep", "sleep"),
    ("a shell's child", &[], "sh -c 'sleep 0.6; true'; true", "sleep", "sleep"),
    (
        "a lock that another holds",
        &["flock"],
        "flock lock sleep 0.8 & sleep 0.05; flock lock true; wait",
        "lock",
        "lock",
    ),
    (
        "a server that sleeps",
        &["python3"],
        "python3 server.py & while [ ! -s port ]; do sleep 0.01; done; python3 client.py",
        "sleep",
        "python3",
    ),
    (
        "a pipe that is not read",
        &["perl"],
        "perl -e 'print \"x\" x 300000' | (sleep 0.7; cat > /dev/null)",
        "sleep",
        "sleep",
    ),
];

const SERVER: &str = "import socket, time
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
open('port.new', 'w').write(str(s.getsockname()[1]))
import os; os.rename('port.new', 'port')
c, _ = s.accept(); c.recv(100); time.sleep(0.8); c.send(b'x'); c.close()
";
const CLIENT: &str = "import socket
c = socket.create_connection(('127.0.0.1', int(open('port').read())))
c.send(b'hello'); c.recv(1)
";
const CRUNCH: &str = "import time
def crunch(until):
    while time.monotonic() < until:
        for i in range(2000): i * i
crunch(time.monotonic() + 1.0)
";

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output_in_time();
    found.is_ok_and(|output| output.status.success())
}

/// Where nobody may work and execute.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("holdup-ordinary-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("server.py"), SERVER).expect("a file");
    std::fs::write(folder.join("client.py"), CLIENT).expect("a file");
    std::fs::write(folder.join("crunch.py"), CRUNCH).expect("a file");
    std::fs::copy(env!("CARGO_BIN_EXE_holdup"), folder.join("holdup")).expect("a copy");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, open).expect("rights");
    folder
}

/// The answer to one command.
fn asked(folder: &Path, words: &str) -> Value {
    let holdup = folder.join("holdup");
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let mut command = Command::new(if is_root { Path::new("setpriv") } else { &holdup });
    if is_root {
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&holdup);
    }
    let output = command
        .args(["run", "--json", "-o", "answer.json", "--", "sh", "-c", words])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output_in_time()
        .expect("holdup runs");
    let text = std::fs::read(folder.join("answer.json"))
        .unwrap_or_else(|_| panic!("no answer: {}", String::from_utf8_lossy(&output.stderr)));
    let _ = std::fs::remove_file(folder.join("answer.json"));
    let _ = std::fs::remove_file(folder.join("port"));
    serde_json::from_slice(&text).expect("JSON")
}

/// What is wrong with an answer; none if nothing is.
fn wrong(answer: &Value, end: &str, word: &str) -> Option<String> {
    let wall = answer["accounting"]["wall_seconds"].as_f64()?;
    let ends = answer["answer"]["ends"].as_array()?;
    let fits = |one: &&Value| one["end"] == end && one.to_string().contains(word);
    let of_end: f64 = ends.iter().filter(fits).filter_map(|one| one["seconds"].as_f64()).sum();
    let short = |one: &Value| {
        let (end, seconds) = (&one["end"], &one["seconds"]);
        format!("{end} {seconds} {} {}", one["object"]["name"], one["who"]["name"])
    };
    let all: Vec<String> = ends.iter().map(short).collect();
    (of_end < SHARE_MIN * wall).then(|| format!("{of_end:.2} of {wall:.2} s: {}", all.join("; ")))
}

#[test]
fn what_an_ordinary_users_command_waits_for_is_found() {
    let folder = folder();
    let mut wrongs = Vec::new();
    for (name, needs, words, end, word) in CASES {
        if !needs.iter().all(|program| is_installed(program)) {
            eprintln!("{name}: passed over, not installed: {needs:?}");
            continue;
        }
        let answer = asked(&folder, words);
        if let Some(why) = wrong(&answer, end, word) {
            wrongs.push(format!("{name}: {end} {word}: {why}"));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(wrongs.is_empty(), "\n{}", wrongs.join("\n"));
}
