//! The generated types of `bpf/wire.h`, and the one place where bytes become them: whole, or by fields if they are long.
//!
//! Rejected: a second definition in Rust; reading by pointer cast in place (alignment).

pub use crate::skel::types::*;

/// A plain struct of `wire.h`: any bytes are a value of it.
///
/// # Safety
/// Only integers and arrays of integers may be inside.
pub unsafe trait Wire: Copy {}

macro_rules! wire {
    ($($name:ty),*) => { $(
        // SAFETY: integers, or generated from wire.h, which holds integers and arrays of integers only.
        unsafe impl Wire for $name {}
    )* };
}
wire!(
    u8,
    u16,
    u32,
    u64,
    i64,
    [u64; 6],
    wire_ref,
    wire_object,
    wire_head,
    wire_place,
    wire_lock,
    wire_wait,
    wire_fork,
    wire_exec,
    wire_exit,
    wire_thread,
    wire_endpoint,
    wire_registers,
    wire_request,
    wire_oom,
    wire_signal,
    wire_dns,
    wire_denied,
    wire_disk_key,
    wire_disk_latency,
    wire_disk_latency_slot,
    wire_disk_use_key,
    wire_disk_use,
    wire_disk_use_slot,
    wire_reclaim_key,
    wire_reclaim,
    wire_cache_key,
    wire_cache,
    wire_refault_key,
    wire_refault,
    wire_dirtied_key,
    wire_dirtied,
    wire_dirty_key,
    wire_dirty,
    wire_qdisc_key,
    wire_qdisc,
    wire_flow_key,
    wire_flow,
    wire_drop_key,
    wire_drop,
    wire_dropped_flow_key,
    wire_dropped_flow,
    wire_messages,
    wire_sent_key,
    wire_sent,
    wire_sample_key,
    wire_sample,
    wire_work_key,
    wire_work,
    wire_point_key,
    wire_effort_key,
    wire_effort
);

/// Reads a record; bytes that a shorter record leaves out are zero.
#[inline]
pub fn read<T: Wire>(bytes: &[u8]) -> T {
    match bytes.get(..size_of::<T>()) {
        // SAFETY: as many bytes are readable, and any bytes are a value of every Wire type.
        Some(whole) => unsafe { whole.as_ptr().cast::<T>().read_unaligned() },
        None => read_short(bytes),
    }
}

/// Kept apart: what is read field by field would have this in each of them.
#[cold]
#[inline(never)]
fn read_short<T: Wire>(bytes: &[u8]) -> T {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: `length` bytes are readable at the source and writable at the target, which do not
    // overlap; zero is a value of every Wire type, and so are any bytes copied over it.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), length);
        value.assume_init()
    }
}

/// Reads one field of a record, `field!(bytes, wire_wait, place.cpu)`: a wait with its path is more than a kilobyte,
/// and to copy it costs more than to read what is asked for where it lies.
macro_rules! field {
    ($bytes:expr, $record:ty, $($field:ident).+) => {
        $crate::decode::wire::read_as(
            $crate::decode::wire::part!($bytes, $record, $($field).+),
            |record: &$record| record.$($field).+,
        )
    };
}
pub(crate) use field;

/// The bytes of one field of a record, fewer if the record ends before.
macro_rules! part {
    ($bytes:expr, $record:ty, $($field:ident).+) => {
        $crate::decode::wire::part_as(
            $bytes,
            std::mem::offset_of!($record, $($field).+),
            |record: &$record| record.$($field).+,
        )
    };
}
pub(crate) use part;

/// Behind `field!`: the function is not called, it says the type.
#[inline]
pub fn read_as<T, F: Wire>(bytes: &[u8], _type: impl Fn(&T) -> F) -> F {
    read(bytes)
}

/// Behind `part!`, in the same way.
#[inline]
pub fn part_as<T, F>(bytes: &[u8], at: usize, _type: impl Fn(&T) -> F) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.get(..size_of::<F>()).unwrap_or(rest)
}

/// Without the empty slots at the end.
pub(crate) fn trimmed(slots: &[u64]) -> Vec<u64> {
    let used = slots.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    slots[..used].to_vec()
}

/// A NUL-terminated name as text; what is not UTF-8 is replaced.
#[inline]
pub fn text<T: Copy + Into<i16>, const N: usize>(bytes: &[T; N]) -> String {
    // By value: of a known length it is copied at once, where an iterator would go byte by byte.
    let raw = bytes.map(|b| (b.into() & 0xff) as u8);
    let name = &raw[..name_end(&raw)];
    match str::from_utf8(name) {
        Ok(name) => name.to_owned(),
        Err(_) => String::from_utf8_lossy(name).into_owned(),
    }
}

/// Where the first NUL is, or the end. Eight bytes at a time: each event has names, and of lengths that no branch
/// predictor guesses.
#[inline]
fn name_end(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of each byte that is zero; above the first one it may lie.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return index * 8 + zeros.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    words.len() * 8 + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_its_first_nul_or_with_its_bytes() {
        for length in 0..=20 {
            let mut bytes = [0xff_u8; 20];
            bytes[..length].fill(b'\x01');
            if let Some(end) = bytes.get_mut(length) {
                *end = 0;
            }
            assert_eq!(text(&bytes), "\x01".repeat(length));
        }
        assert_eq!(text(&[b'a' as i8, -1, b'b' as i8, 0, b'c' as i8]), "a\u{fffd}b");
    }

    #[test]
    fn a_field_reads_as_in_the_whole_record_however_short() {
        let bytes: Vec<u8> = (0..size_of::<wire_wait>() + 9).map(|at| at as u8 | 1).collect();
        for length in 0..=bytes.len() {
            let bytes = &bytes[..length];
            let whole: wire_wait = read(bytes);
            assert_eq!(field!(bytes, wire_wait, flags), whole.flags);
            assert_eq!(field!(bytes, wire_wait, waker.start_ns), whole.waker.start_ns);
            let place = part!(bytes, wire_wait, place);
            assert_eq!(field!(place, wire_place, args), whole.place.args);
            assert_eq!(field!(place, wire_place, object).name, whole.place.object.name);
            assert!(part!(bytes, wire_wait, path).len() <= whole.path.len());
        }
    }
}
