//! Words in the memory of a waiting process: futex words, their owners, poll arrays.
//!
//! process_vm_readv from outside, of threads that are known to wait in the system call concerned. It takes the memory lock of the
//! process, a wait that no signal ends, and brings pages that are not there: where one thread maps a file of a dead file system, a
//! read of the words of another may last for ever. So every caller reads on a thread that may be left behind: guard.rs, or a
//! helper of its own. Nothing is ever written.
//!
//! Must not: be called by the thread that looks. Rejected: /proc/PID/mem, which takes the same lock.

/// Reads bytes of another process; none if they are not readable.
pub fn read(pid: u32, address: u64, bytes: &mut [u8]) -> Option<()> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local vector names a live, writable buffer of its length; the remote one is only
    // looked up by the kernel in the other process.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) };
    (read == bytes.len() as isize).then_some(())
}

/// Whether the kernel refuses to read any memory of a process, whatever the address (ptrace(2), PTRACE_MODE_ATTACH_REALCREDS): it looks
/// at the right first.
pub fn is_refused(pid: u32) -> bool {
    let is_read = read(pid, 0, &mut [0]).is_some();
    !is_read && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Reads as many bytes as are there in a row, at most as many as fit; gives how many.
pub fn read_some(pid: u32, address: u64, bytes: &mut [u8]) -> usize {
    const PAGE: usize = 4096;
    const PAGES_MAX: usize = 16;
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // A vector that is not there whole is left out, so each page has one.
    let mut remote = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PAGES_MAX];
    let (mut used, mut done) = (0, 0);
    while done < bytes.len() && used < PAGES_MAX {
        let Some(at) = address.checked_add(done as u64) else { break };
        let length = (PAGE - at as usize % PAGE).min(bytes.len() - done);
        remote[used] = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
        (used, done) = (used + 1, done + length);
    }
    let count = used as libc::c_ulong;
    // SAFETY: as above; the remote vectors are `used` initialised ones.
    let read =
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, remote.as_ptr(), count, 0) };
    usize::try_from(read).unwrap_or(0)
}

/// A text that ends with a NUL, at most `bytes_max` long; none if it is not readable, not UTF-8, or empty.
pub fn text(pid: u32, address: u64, bytes_max: usize) -> Option<String> {
    const PAGE: u64 = 4096;
    let (mut found, mut at) = (Vec::new(), address);
    while found.len() < bytes_max {
        // The page behind the text's own may not be there.
        let length = (PAGE - at % PAGE).min((bytes_max - found.len()) as u64);
        let mut bytes = vec![0u8; length as usize];
        read(pid, at, &mut bytes)?;
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            found.extend_from_slice(&bytes[..end]);
            break;
        }
        found.append(&mut bytes);
        at += length;
    }
    String::from_utf8(found).ok().filter(|text| !text.is_empty())
}

/// The futex word, and the word that glibc keeps the owner's thread id in: two words after it
/// (`struct __pthread_mutex_s`: lock, count, owner).
pub fn futex_words(pid: u32, address: u64) -> Option<(u32, Option<u32>)> {
    let mut words = [0u8; 12];
    let word = |at: usize, words: &[u8; 12]| {
        u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
    };
    if read(pid, address, &mut words).is_some() {
        return Some((word(0, &words), Some(word(8, &words))));
    }
    read(pid, address, &mut words[..4])?;
    Some((word(0, &words), None))
}

/// A `struct timespec` of a 64-bit process; none of no address, and of what is no time.
pub fn time_ns(pid: u32, address: u64) -> Option<u64> {
    let mut bytes = [0u8; 16];
    read(pid, address, &mut bytes).filter(|()| address != 0)?;
    let (seconds, rest) = bytes.split_first_chunk::<8>()?;
    let ns = u64::from_ne_bytes(*rest.first_chunk()?);
    let whole = u64::from_ne_bytes(*seconds).checked_mul(1_000_000_000)?;
    (ns < 1_000_000_000).then(|| whole.checked_add(ns)).flatten()
}

/// The descriptors of a poll array (`struct pollfd`), at most `count`.
pub fn poll_descriptors(pid: u32, address: u64, count: u64) -> Vec<u32> {
    let count = count.min(16) as usize;
    let mut bytes = vec![0u8; count * 8];
    if count == 0 || read(pid, address, &mut bytes).is_none() {
        return Vec::new();
    }
    bytes
        .chunks_exact(8)
        .filter_map(|c| u32::try_from(i32::from_ne_bytes([c[0], c[1], c[2], c[3]])).ok())
        .collect()
}

/// The descriptors of a poll array, and whether each is waited on for room only (POLLOUT).
pub fn polled(pid: u32, address: u64, count: u64) -> Vec<(u32, bool)> {
    const POLL_ENTRIES_MAX: u64 = 64;
    let count = count.min(POLL_ENTRIES_MAX) as usize;
    let mut bytes = vec![0u8; count * 8];
    if count == 0 || read(pid, address, &mut bytes).is_none() {
        return Vec::new();
    }
    let entry = |c: &[u8]| {
        let fd = u32::try_from(i32::from_ne_bytes([c[0], c[1], c[2], c[3]])).ok()?;
        let events = i16::from_ne_bytes([c[4], c[5]]);
        Some((fd, events & libc::POLLOUT != 0 && events & libc::POLLIN == 0))
    };
    bytes.chunks_exact(8).filter_map(entry).collect()
}

/// The descriptors of a set of select, of which the first `count` count.
pub fn descriptor_set(pid: u32, address: u64, count: u64) -> Vec<u32> {
    let count = count.min(libc::FD_SETSIZE as u64) as usize;
    let mut bytes = vec![0u8; count.div_ceil(64) * 8];
    if address == 0 || count == 0 || read(pid, address, &mut bytes).is_none() {
        return Vec::new();
    }
    (0..count).filter(|fd| bytes[fd / 8] & (1 << (fd % 8)) != 0).map(|fd| fd as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_up_to_where_nothing_is() {
        let own = std::process::id();
        let text = vec![7_u8; 20_000];
        let mut bytes = vec![0; 20_000];
        assert_eq!(read_some(own, text.as_ptr() as u64, &mut bytes), 20_000);
        assert_eq!(bytes, text);
        assert_eq!(read_some(own, 8, &mut bytes), 0);
    }

    #[test]
    fn a_process_of_ones_own_and_one_that_is_not_there_refuse_nothing() {
        assert!(!is_refused(std::process::id()) && !is_refused(u32::MAX >> 1));
    }

    #[test]
    fn a_text_ends_at_its_nul_and_at_the_limit() {
        let (own, words) = (std::process::id(), c"/srv/data/file");
        assert_eq!(text(own, words.as_ptr() as u64, 4096).as_deref(), Some("/srv/data/file"));
        assert_eq!(text(own, words.as_ptr() as u64, 4).as_deref(), Some("/srv"));
        assert_eq!(text(own, c"".as_ptr() as u64, 16), None);
        assert_eq!(text(own, 8, 16), None);
    }
}
