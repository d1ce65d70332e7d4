//! `holdup top` by its binary, on a real terminal (tmux): a fault is read on it, keys change it, and the terminal is given back on every
//! way out.
//!
//! A fault of its own (a file lock). As root by kernel events; otherwise a recording is shown. Must not: ask for exact times.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod in_time;

use in_time::{ChildInTime, CommandInTime};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A loaded host takes its time.
const PATIENCE: Duration = Duration::from_secs(90);

/// The file whose lock is held.
const LOCK: &str = "lock.of.this.test";

/// A terminal of its own, in which a shell runs holdup and notes what it left.
struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    fn new(arguments: &str, size: (u16, u16), term: &str) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let holdup = env!("CARGO_BIN_EXE_holdup");
        let script = format!(
            "cd {folder}; export TERM={term}; stty -g > before; sh -c 'echo $$ > pid; exec {holdup} top {arguments} 2> said'; \
             echo $? > status.new; stty -g > after; mv status.new status; sleep 600",
            folder = terminal.folder.path().display(),
        );
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let begun = terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            &script,
        ]);
        assert!(begun.status.success(), "tmux: {}", String::from_utf8_lossy(&begun.stderr));
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> std::process::Output {
        let socket = self.folder.path().join("tmux");
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(socket).args(arguments).env_remove("TMUX").stdin(Stdio::null());
        tmux.output_in_time().expect("tmux is there (xtask/setup test brings it)")
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return;
            }
            let said = self.file("said");
            assert!(begin.elapsed() < PATIENCE, "{what} does not come:\n{screen}\n{said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn until_shown(&self, words: &str) {
        self.until(words, |screen| screen.contains(words));
    }

    fn press(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default().trim().to_owned()
    }

    /// Its exit status, once it has ended; the terminal is as it was before.
    fn status(&self) -> String {
        self.until("its end", |_| self.path("status").exists());
        assert_eq!(self.file("after"), self.file("before"), "the terminal's modes");
        let flags = "#{alternate_on} #{mouse_any_flag} #{cursor_flag}";
        let left = self.tmux(&["display-message", "-p", flags]);
        assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "0 0 1", "screen, mouse, cursor");
        self.file("status")
    }

    fn signal(&self, name: &str) {
        let pid = self.file("pid");
        assert!(Command::new("kill").args(["-s", name, &pid]).status_in_time().unwrap().success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait_in_time();
    }
}

/// Somebody who takes the lock of a file again and again, and has it for no time.
fn taker(lock: &Path) -> Running {
    let program = "import fcntl, sys, time\nfile = open(sys.argv[1], 'w')\nwhile True:\n    fcntl.flock(file, fcntl.LOCK_EX)\n    \
                   fcntl.flock(file, fcntl.LOCK_UN)\n    time.sleep(0.05)\n";
    let lock = lock.as_os_str();
    Running(Command::new("python3").args(["-c", program]).arg(lock).spawn().unwrap())
}

/// Somebody who has it.
fn holder(lock: &Path) -> Running {
    // flock itself becomes the sleeper, so that the lock ends with it.
    Running(Command::new("flock").arg("-F").arg(lock).args(["sleep", "600"]).spawn().unwrap())
}

fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output_in_time();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

fn recording() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/recordings/lock-deadlock-files-4401.rec");
    format!("--from {}", file.display())
}

#[test]
fn a_fault_is_read_while_it_lasts_and_keys_go_back_to_it() {
    if !is_root() {
        // Kernel events are root's: what needs none is asked by the other tests.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join(LOCK);
    let taker = taker(&lock);
    // Of this process alone: what else the machine does is not asked.
    let arguments = format!("--window 1s -p {}", taker.0.id());
    let terminal = Terminal::new(&arguments, (80, 24), "screen-256color");
    terminal.until("a window without it", |it| it.contains("live") && !it.contains("lock.file"));
    let mut holder = holder(&lock);
    terminal.until("the finding", |it| it.contains("lock.file") && it.contains("HELD"));
    terminal.press("2");
    terminal.until("who blocks", |it| it.contains("[2 blockers") && it.contains("holds"));
    terminal.press("1");
    terminal.press("Enter");
    // On the whole screen a name has room.
    terminal.until("its lock by name", |it| it.contains(LOCK) && it.contains("Esc back"));
    terminal.press("Escape");
    terminal.press("?");
    terminal.until_shown("ctrl-L");
    terminal.press("q");
    terminal.until_shown("[1 answers");
    holder.0.kill().unwrap();
    holder.0.wait_in_time().unwrap();
    terminal.until("the end of it", |it| it.contains("live") && !it.contains("lock.file"));
    terminal.press("N");
    terminal
        .until("the window that had it", |it| it.contains("PAUSED") && it.contains("lock.file"));
    terminal.press("q");
    assert_eq!(terminal.status(), "0");
    assert_eq!(terminal.file("said"), "");
}

#[test]
fn a_recording_is_read_and_the_terminal_follows_its_size() {
    let terminal = Terminal::new(&recording(), (80, 24), "screen-256color");
    terminal.until("the finding", |it| it.contains("lock.deadlock") && it.contains("PAST 1 of 1"));
    terminal.press("2");
    terminal.until_shown("They wait for each other:");
    assert!(terminal.tmux(&["resize-window", "-x", "40", "-y", "16"]).status.success());
    terminal.until("one pane", |it| it.contains("Enter read") && it.contains("a deadlock"));
    assert!(terminal.tmux(&["resize-window", "-x", "30", "-y", "8"]).status.success());
    terminal.until_shown("too small");
    assert!(terminal.tmux(&["resize-window", "-x", "90", "-y", "30"]).status.success());
    terminal.until_shown("They wait for each other:");
    terminal.press("C-c");
    assert_eq!(terminal.status(), "0");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130"), ("QUIT", "131")] {
        let terminal = Terminal::new(&recording(), (80, 24), "screen-256color");
        terminal.until_shown("lock.deadlock");
        terminal.signal(signal);
        assert_eq!(terminal.status(), status, "{signal}");
    }
}

/// A terminal that takes nothing: holdup stands in a write.
const BLOCKED: &str = "
import fcntl, os, pty, signal, struct, subprocess, sys, termios, time
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
before = termios.tcgetattr(theirs)
environment = dict(os.environ, TERM='xterm')
holdup = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=theirs, env=environment, start_new_session=True)
os.set_blocking(ours, False)
def stands():
    with open(f'/proc/{holdup.pid}/task/{holdup.pid}/syscall') as call:
        # write(2), of x86-64 or of arm64.
        return call.read().split()[0] in ('1', '64')
def is_stuck():
    # A write that is only passed through has ended by then.
    return stands() and (time.sleep(0.3) or stands())
until = time.monotonic() + 60
while not is_stuck() and time.monotonic() < until:
    try:
        os.write(ours, b'?')
    except BlockingIOError:
        time.sleep(0.01)
    time.sleep(0.001)
was_stuck = is_stuck()
is_raw = termios.tcgetattr(theirs) != before
holdup.send_signal(signal.SIGTERM)
print(holdup.wait(60), was_stuck, is_raw, termios.tcgetattr(theirs) == before)
";

#[test]
fn a_signal_ends_it_on_a_terminal_that_takes_nothing() {
    let recording = recording();
    let (flag, file) = recording.split_once(' ').unwrap();
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let ended =
        Command::new("python3").args(["-c", BLOCKED, holdup, "top", flag, file]).output_in_time();
    let ended = ended.expect("python3 is there");
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "143 True True True", "{ended:?}");
}

#[test]
fn where_no_screen_can_be_drawn_it_says_what_to_do() {
    let terminal = Terminal::new(&recording(), (80, 24), "dumb");
    assert_eq!(terminal.status(), "3");
    let said = terminal.file("said");
    assert!(said.contains("TERM=dumb") && said.contains("`holdup watch`"), "{said}");
    let piped = Command::new(env!("CARGO_BIN_EXE_holdup")).arg("top").output_in_time().unwrap();
    assert_eq!(piped.status.code(), Some(3));
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(said.contains("standard output is none"), "{said}");
}

#[test]
fn a_ring_that_is_not_there_is_said_before_the_screen_is_taken() {
    let terminal = Terminal::new("--from ring --state ./nowhere", (80, 24), "screen-256color");
    assert_eq!(terminal.status(), "3");
    let said = terminal.file("said");
    assert!(said.contains("nowhere"), "{said}");
}
