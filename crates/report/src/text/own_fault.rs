//! A fault of the kernel in a program that holdup itself had loaded into it: said before everything else, because it harms the host.
//!
//! Owns its words, on the page and as a failure. Must not: soften it, or say it of another's program (the probe compares the tags).

use super::escape;
use super::page::{Page, Tone};
use crate::failure::Failure;
use holdup_reason::answer::OwnFault;

/// What one does about it.
const ADVICE: &str = "Look no more as root on this kernel: as an ordinary user holdup loads no program into it. Report the fault with \
                      the lines of dmesg; the host is best started anew when it can be.";

/// Writes it.
pub(crate) fn render(fault: &OwnFault, page: &mut Page) {
    page.verdict(&what(fault), Tone::Critical);
    page.item(&format!("kernel log: {}", escape::line(&fault.log)));
    page.item(ADVICE);
    page.gap();
}

/// Why a look that goes on ends itself.
pub(crate) fn failure(fault: &OwnFault) -> Failure {
    Failure::own_fault(what(fault), ADVICE)
}

fn what(fault: &OwnFault) -> String {
    format!(
        "a fault of holdup's own: the kernel ({}) met an error in {}, a program that holdup had loaded into it",
        escape::line(&fault.kernel),
        escape::line(&fault.program),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_watch_ends_is_said_with_what_to_do() {
        let fault = OwnFault {
            program: "on_wait".into(),
            kernel: "6.18.5".into(),
            log: "RIP: 0010:bpf_prog_0a1b2c3d4e5f6071_on_wait+0x1/0x2".into(),
        };
        let failure = failure(&fault);
        assert_eq!(failure.status, crate::failure::OWN_FAULT);
        let said = failure.message();
        assert!(
            said.starts_with("holdup: a fault of holdup's own: the kernel (6.18.5) met"),
            "{said}"
        );
        assert!(said.contains("in on_wait,") && said.contains("ordinary user"), "{said}");
    }
}
