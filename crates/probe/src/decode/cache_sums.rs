//! What the sums of the page cache say at the end: who brought pages in, which files were read again, and who made pages dirty.
//!
//! The kernel side looks at one page in some; it counts the pages that each of them stands for. Must not: read maps (kernel/sums.rs), or judge
//! what is too much. Edit together: bpf/cache.bpf.c (who adds what when).

use super::mounts::Mounts;
use super::values::{device, thread_ref};
use crate::decode::wire::*;
use holdup_reason::facts::{CacheFill, Dirtied, FileRef, FileRefault, ThreadRef};

/// Of one process, by who had them evicted.
pub fn fill(key: &wire_cache_key, sum: &wire_cache, page_bytes: u64) -> CacheFill {
    CacheFill {
        process: ThreadRef { tid: sum.process.tgid, ..thread_ref(&sum.process) },
        evicted_by: key.by,
        bytes: sum.pages * page_bytes,
        cgroup_id: sum.cgroup_id,
    }
}

/// Of one process and file.
pub fn refault(
    key: &wire_refault_key,
    sum: &wire_refault,
    mounts: &mut Mounts,
    page_bytes: u64,
) -> FileRefault {
    let names = sum.path.map(|byte| byte as u8);
    let path = mounts.path(key.tgid, &names, sum.path_bytes as u32, key.dev);
    FileRefault {
        pid: key.tgid,
        file: FileRef { dev: device(key.dev), ino: key.ino, path, ..FileRef::default() },
        bytes: sum.pages * page_bytes,
    }
}

/// Who made less dirty is nobody's neighbour, and there may be thousands of such.
const DIRTIED_BYTES_MIN: u64 = 1 << 20;

/// Of one process and file system; none where it is little.
pub fn dirtied(key: &wire_dirtied_key, sum: &wire_dirtied, page_bytes: u64) -> Option<Dirtied> {
    let bytes = sum.pages * page_bytes;
    (bytes >= DIRTIED_BYTES_MIN).then(|| Dirtied {
        dev: device(key.dev),
        process: ThreadRef { tid: sum.process.tgid, ..thread_ref(&sum.process) },
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::wire;

    #[test]
    fn who_made_little_dirty_is_left_out() {
        let mut key: wire_dirtied_key = wire::read(&[]);
        let mut sum: wire_dirtied = wire::read(&[]);
        (key.tgid, key.dev) = (40, 7 << 20 | 1);
        (sum.process.tgid, sum.process.tid, sum.pages) = (40, 42, 255);
        assert_eq!(dirtied(&key, &sum, 4096), None);
        sum.pages = 256;
        let much = dirtied(&key, &sum, 4096).expect("a mebibyte");
        assert_eq!((much.bytes, much.process.tid, much.dev.major), (1 << 20, 40, 7));
    }
}
