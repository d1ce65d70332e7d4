//! A terminal by its name: which side of it a descriptor is on.
//!
//! The kernel names the side that a program has `pts/3`, and the reader of descriptors the side of whoever shows it `ptm/3`, with the same
//! number. A virtual console (`tty1`) has a keyboard at its other end, anything else (`ttyS0`, `ttyUSB0`, `hvc0`) a line: a person or a
//! device, which its name does not tell. Must not: be parsed elsewhere.

/// A side of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Terminal<'a> {
    /// Of whoever shows what comes there: a window, a session over the network; with the number of the pair.
    Shown(&'a str),
    /// Of the programs that run in it; with the number of the pair.
    Used(&'a str),
    /// No pair.
    Other(&'a str),
}

impl<'a> Terminal<'a> {
    /// By the name.
    pub fn of(name: &'a str) -> Self {
        match (name.strip_prefix("ptm/"), name.strip_prefix("pts/")) {
            (Some(index), _) => Self::Shown(index),
            (None, Some(index)) => Self::Used(index),
            (None, None) => Self::Other(name),
        }
    }

    /// Whether it is the side of whoever shows it.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Shown(_))
    }

    /// Whether whoever reads it reads what is typed: the programs' side of a pair, or a virtual console.
    pub fn is_keyboard(self) -> bool {
        match self {
            Self::Shown(_) => false,
            Self::Used(_) => true,
            Self::Other(name) => {
                let number = name.strip_prefix("tty").unwrap_or_default();
                name == "console"
                    || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            }
        }
    }

    /// Whether it is a line, with a person or a device at its other end.
    pub fn is_line(self) -> bool {
        !self.is_shown() && !self.is_keyboard()
    }

    /// The other side of the same pair, of the programs' side.
    pub fn shows(self, used: Terminal<'_>) -> bool {
        match (self, used) {
            (Self::Shown(own), Terminal::Used(other)) => own == other,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_of_a_pair_have_one_number() {
        let (shown, used) = (Terminal::of("ptm/3"), Terminal::of("pts/3"));
        assert!(shown.shows(used) && shown.is_shown() && !used.is_shown());
        assert!(!shown.shows(Terminal::of("pts/31")) && !used.shows(shown));
        assert_eq!(Terminal::of("tty1"), Terminal::Other("tty1"));
    }

    #[test]
    fn a_serial_port_may_have_a_device_at_its_other_end() {
        for name in ["pts/3", "tty1", "tty63", "console"] {
            assert!(Terminal::of(name).is_keyboard() && !Terminal::of(name).is_line(), "{name}");
        }
        for name in ["ttyS1", "ttyUSB0", "hvc0", "ttyACM0"] {
            assert!(Terminal::of(name).is_line() && !Terminal::of(name).is_keyboard(), "{name}");
        }
        assert!(!Terminal::of("ptm/3").is_line() && !Terminal::of("ptm/3").is_keyboard());
    }
}
