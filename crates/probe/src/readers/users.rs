//! Names of users.
//!
//! From /etc/passwd alone, read once a look. Rejected: getpwuid, which may ask a directory server over the network, in the middle of a look
//! at a host that may have none. Must not: guess a name for a number that the file lacks.

use crate::system::{Roots, text};
use std::collections::HashMap;

/// Names by the numbers of users.
pub(super) type Names = HashMap<u32, String>;

/// The names of the users of this host, as far as its file has them.
pub(super) fn names(roots: &Roots) -> Names {
    parse(&text::read(&roots.resolve("/etc/passwd")).unwrap_or_default())
}

/// Lines such as `anna:x:1000:1000:Anna:/home/anna:/bin/sh`; of several names for a number the first counts.
fn parse(file: &[u8]) -> Names {
    let mut names = Names::new();
    for line in text::lines(file) {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, uid) = (fields.next(), fields.nth(1).and_then(text::number));
        if let (Some(name), Some(uid)) = (name.filter(|name| !name.is_empty()), uid)
            && let Ok(uid) = u32::try_from(uid)
        {
            names.entry(uid).or_insert_with(|| text::lossy(name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_number_counts() {
        let names = parse(b"root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n+::::::\nanna:x:1000:1000:A:/:/bin/sh");
        assert_eq!(names.get(&0).map(String::as_str), Some("root"));
        assert_eq!(names.get(&1000).map(String::as_str), Some("anna"));
        assert_eq!(names.len(), 2);
    }
}
