//! A terminal by its name: which side of it a descriptor is on.
//!
//! The kernel names the side that a program has `pts/3`, and the reader of descriptors the side of whoever shows it `ptm/3`, with the same
//! number. Anything else (`tty1`, `ttyS0`) has a person or a wire at its other end. Must not: be parsed elsewhere.

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
}
