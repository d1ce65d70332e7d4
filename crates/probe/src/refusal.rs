//! Why the kernel refused a program: which one it was, and the verifier's last words.
//!
//! libbpf gives the errno to its caller and everything else to its print callback, which is a plain function without a context: what
//! it says while loading goes into one static. So one load is listened to at a time, and the next waits for its end.
//! Must not: print, or decide what to do without the program (plan.rs).

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The verifier's log can reach megabytes; its end is what tells.
const HEARD_BYTES_MAX: usize = 1 << 16;

static HEARD: Mutex<String> = Mutex::new(String::new());

/// What is known of a refused load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The program that was refused; none if it was something else (a map, the BTF).
    pub program: Option<String>,
    /// What was refused and, where the verifier had a word, its last.
    pub why: String,
}

/// A refusal that concerns no program.
pub(crate) fn of(doing: &str) -> impl Fn(libbpf_rs::Error) -> Refusal + '_ {
    move |error| Refusal { program: None, why: format!("{doing}: {error:#}") }
}

fn hear(_: PrintLevel, said: String) {
    let Ok(mut heard) = HEARD.lock() else { return };
    heard.push_str(&said);
    let surplus = heard.len().saturating_sub(HEARD_BYTES_MAX);
    if let Some(cut) = (surplus..heard.len()).find(|&at| heard.is_char_boundary(at)) {
        heard.drain(..cut);
    }
}

/// Who loads now; whoever loads beside it would hear its words.
static LISTENS: Mutex<()> = Mutex::new(());

/// Listens to libbpf for as long as it lives.
pub(crate) struct Listening {
    _alone: MutexGuard<'static, ()>,
}

/// From here on libbpf's warnings are collected, and not printed.
pub(crate) fn listen() -> Listening {
    let alone = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    libbpf_rs::set_print(Some((PrintLevel::Warn, hear)));
    if let Ok(mut heard) = HEARD.lock() {
        heard.clear();
    }
    Listening { _alone: alone }
}

impl Listening {
    /// What was said since, whole.
    pub(crate) fn take(&self) -> String {
        HEARD.lock().map(|mut heard| std::mem::take(&mut *heard)).unwrap_or_default()
    }
}

/// Reads libbpf's words about a load that failed with `error`.
pub(crate) fn read(heard: &str, error: &dyn std::fmt::Display) -> Refusal {
    let named = |line: &str| {
        let rest = line.split_once("prog '")?.1;
        let (name, rest) = rest.split_once('\'')?;
        (rest.contains("failed to load") || rest.contains("load failed")).then(|| name.to_string())
    };
    let program = heard.lines().rev().find_map(named);
    let why = match (&program, last_words(heard)) {
        (None, _) => format!("load the kernel programs: {error:#}"),
        (Some(name), said) if said.is_empty() => format!("load {name}: {error:#}"),
        (Some(name), said) => format!("load {name}: {error:#} ({said})"),
    };
    Refusal { program, why }
}

/// The verifier ends with its reason and then counts what it did.
fn last_words(heard: &str) -> String {
    let counted = |line: &str| {
        line.is_empty()
            || line.starts_with("processed ")
            || line.starts_with("libbpf:")
            || line.starts_with("verification time")
            || line.starts_with("stack depth")
            || line.contains("END PROG LOAD LOG")
    };
    let log = heard.rsplit_once("-- BEGIN PROG LOAD LOG --").map_or(heard, |(_, log)| log);
    let log = log.split_once("-- END PROG LOAD LOG --").map_or(log, |(log, _)| log);
    log.lines().map(str::trim).rfind(|line| !counted(line)).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_program_is_named_with_the_verifiers_reason() {
        let heard = "libbpf: prog 'mark_victim': BPF program load failed: Permission denied\n\
            libbpf: prog 'mark_victim': -- BEGIN PROG LOAD LOG --\n\
            0: (79) r6 = *(u64 *)(r1 +0)\n\
            R6 invalid mem access 'inv'\n\
            processed 12 insns (limit 1000000) max_states_per_insn 0\n\
            -- END PROG LOAD LOG --\n\
            libbpf: prog 'mark_victim': failed to load: -13\n\
            libbpf: failed to load object 'holdup_bpf'\n";
        let refusal = read(heard, &"Permission denied");
        assert_eq!(refusal.program.as_deref(), Some("mark_victim"));
        assert_eq!(
            refusal.why,
            "load mark_victim: Permission denied (R6 invalid mem access 'inv')"
        );
    }

    #[test]
    fn a_refused_map_names_no_program() {
        let heard = "libbpf: map 'thread_states': failed to create: Invalid argument(-22)\n";
        let refusal = read(heard, &"Invalid argument");
        assert_eq!(refusal.program, None);
        assert_eq!(refusal.why, "load the kernel programs: Invalid argument");
    }
}
