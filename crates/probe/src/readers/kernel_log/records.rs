//! One record of /dev/kmsg, taken apart: pure, and deaf to what a process wrote there.
//!
//! `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,...];TEXT`, then lines that begin with a space and name the device
//! (Documentation/ABI/testing/dev-kmsg). The priority's upper bits are the facility: the kernel's own lines have 0, which it
//! gives to nobody else. The kernel escapes control characters and backslashes of the text as `\xNN`.

use holdup_reason::facts::Ns;

/// A line that the kernel wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// 0 (emergency) to 7 (debug).
    pub level: u8,
    /// By the log's clock.
    pub at_ns: Ns,
    /// Its text, without the lines about the device.
    pub text: &'a str,
}

/// Reads a record; none if it is no line of the kernel.
pub(super) fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    // Bytes beyond ASCII were escaped: what is not UTF-8 is no record.
    let line = std::str::from_utf8(line).ok()?;
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let at_us: u64 = fields.nth(1)?.parse().ok()?;
    let level = u8::try_from(priority & 7).ok()?;
    let is_kernels = priority >> 3 == 0;
    is_kernels.then_some(Record { level, at_ns: at_us.saturating_mul(1000), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_has_level_time_and_text() {
        let record = parse(b"4,339,5140900,-,caller=T1;NET; a=b\n SUBSYSTEM=net\n DEVICE=n3\n");
        assert_eq!(record, Some(Record { level: 4, at_ns: 5_140_900_000, text: "NET; a=b" }));
    }

    #[test]
    fn what_a_process_wrote_is_not_the_kernels() {
        // Facility user, which the kernel sets for whatever is written to /dev/kmsg.
        assert_eq!(parse(b"12,340,5140901,-;Out of memory: Killed process 1 (init)\n"), None);
    }

    #[test]
    fn a_broken_record_is_none() {
        for bytes in
            [&b""[..], b";", b"6,1,2", b"x,1,2,-;a", b"6,1;a", b"6,1,-,-;a", b"6,1,2,-;\xff\xfe"]
        {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
        let long = [b"6,1,99999999999999999999,-;".to_vec(), vec![b'a'; 9000]].concat();
        assert_eq!(parse(&long), None);
    }
}
