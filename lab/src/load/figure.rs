//! The figure of a load: how much it got done, by its own count.
//!
//! Owns the file's format, both ends of it. The file is the one that the environment variable `FIGURE` names. It begins with
//! [`MAGIC`] and holds a native 64-bit counter behind it, which any number of processes map and count in together; or it holds
//! one byte for each operation, which is what scripts append. holdup hears nothing of it. Rejected: appending in Rust as well
//! (a system call for each operation is most of what a load that computes would do).
//!
//! Edit together: `lab/load/ops.h` and the programs there, which append.

use anyhow::{Context, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// First eight bytes of a figure file that holds a counter.
pub const MAGIC: &[u8; 8] = b"figure01";

/// Bytes of such a file: the mark, then the counter.
const LENGTH: usize = 16;

/// Where a load counts its operations.
#[derive(Clone, Copy, Debug)]
pub struct Figure(&'static AtomicU64);

impl Figure {
    /// Maps the file that the environment names; without one it counts for nobody.
    pub fn open() -> Result<Self> {
        let Some(path) = std::env::var_os("FIGURE") else {
            return Ok(Self(Box::leak(Box::new(AtomicU64::new(0)))));
        };
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        Self::map(&file)
    }

    fn map(file: &File) -> Result<Self> {
        // Whoever comes second finds the same bytes there and goes on counting.
        file.write_all_at(MAGIC, 0)?;
        if file.metadata()?.len() < LENGTH as u64 {
            file.set_len(LENGTH as u64)?;
        }
        // SAFETY: a new shared mapping of the 16 bytes that are there, never unmapped; the counter
        // is at offset 8 and so aligned, and every process that maps it uses it atomically.
        let counter = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let map = libc::mmap(
                std::ptr::null_mut(),
                LENGTH,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            if map == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error()).context("map the figure");
            }
            &*map.cast::<u8>().add(MAGIC.len()).cast::<AtomicU64>()
        };
        Ok(Self(counter))
    }

    /// One more operation done.
    pub fn count(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Operations done.
    pub fn done(self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads a figure: operations done so far.
pub fn read(path: &Path) -> u64 {
    let Ok(bytes) = std::fs::read(path) else { return 0 };
    match bytes.split_first_chunk::<8>() {
        Some((magic, rest)) if magic == MAGIC => {
            rest.first_chunk::<8>().map_or(0, |count| u64::from_ne_bytes(*count))
        }
        _ => bytes.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_map_the_same_file_count_together_and_a_script_counts_bytes() {
        let path = std::env::temp_dir().join(format!("lab-figure-{}", std::process::id()));
        let open = || {
            let options =
                File::options().read(true).write(true).create(true).truncate(false).open(&path);
            Figure::map(&options.expect("open")).expect("map")
        };
        let (first, second) = (open(), open());
        first.count();
        second.count();
        open().count();
        assert_eq!((read(&path), first.done()), (3, 3));
        std::fs::write(&path, "....").expect("write");
        assert_eq!(read(&path), 4);
        std::fs::remove_file(&path).expect("remove");
        assert_eq!(read(&path), 0);
    }
}
