//! Loads that read and write files: the sync writer, the cold reader, the direct reader, the
//! bulk writer.
//!
//! Each counts an operation when it is done, not when it is asked for, so that a standing queue shows in
//! the figure at once. Where they write is given by the scenario, never a path of the host.

use crate::load::{Figure, Load, Options, processes};
use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("sync-writer", Load::Pairs(sync_writer)),
    ("sync-appender", Load::Pairs(sync_appender)),
    ("reader", Load::Pairs(reader)),
    ("direct", Load::Pairs(direct)),
    ("spread-reader", Load::Pairs(spread_reader)),
    ("bulk-writer", Load::Pairs(bulk_writer)),
    ("buffered-writer", Load::Pairs(buffered_writer)),
    ("copier", Load::Pairs(copier)),
];

/// Runs `work` on `--threads` threads; each gets its number. Ends when all have ended.
fn on_threads(options: &Options, work: impl Fn(u64) -> Result<()> + Send + Sync) -> Result<()> {
    let threads = options.whole("threads", 1)?.max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn({
                    let work = &work;
                    move || work(n)
                })
            })
            .collect();
        running.into_iter().try_for_each(|t| t.join().unwrap_or(Ok(())))
    })
}

/// Memory aligned for O_DIRECT: a slice of a larger buffer.
struct Aligned(Vec<u8>, usize, usize);

impl Aligned {
    fn new(size: usize) -> Self {
        let buffer = vec![0x5a; size + 4096];
        let begin = buffer.as_ptr().align_offset(4096);
        Self(buffer, begin, size)
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..self.1 + self.2]
    }
}

/// Fills a file with data (not holes) and puts it on the disk.
fn fill_file(path: &str, bytes: u64) -> Result<()> {
    if std::fs::metadata(path)
        .is_ok_and(|m| m.len() >= bytes || m.len() == 0 && path.starts_with("/dev/"))
    {
        return Ok(());
    }
    let file = File::create(path).with_context(|| format!("make {path}"))?;
    let block = vec![0xa5_u8; 1 << 20];
    for at in 0..bytes.div_ceil(1 << 20) {
        file.write_all_at(&block, at << 20)?;
    }
    file.sync_all()?;
    Ok(())
}

/// Drops the clean pages of a range from the page cache (length 0: to the end).
pub fn forget(file: &File, offset: u64, length: u64) {
    // SAFETY: a plain system call on an open descriptor; advice cannot change data.
    unsafe {
        libc::posix_fadvise(
            file.as_raw_fd(),
            offset.cast_signed(),
            length.cast_signed(),
            libc::POSIX_FADV_DONTNEED,
        );
    }
}

/// `--path FILE --size B --threads N --rest-us R --count C`: small writes, each put on the disk.
fn sync_writer(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let (path, size) = (options.text("path")?, options.whole("size", 4096)?);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    let count = options.whole("count", u64::MAX)?;
    on_threads(options, |thread| {
        let path = if thread == 0 { path.to_string() } else { format!("{path}.{thread}") };
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        let block = vec![b'x'; size as usize];
        let mut at = 0;
        while figure.done() < count {
            file.write_all_at(&block, at)?;
            file.sync_data()?;
            at = (at + size) % (8 << 20);
            figure.count();
            std::thread::sleep(rest);
        }
        Ok(())
    })
}

/// `--path FILE --size B --rest-us R --count C`: records appended to a log, each with an fsync that
/// has to commit the file's new length.
fn sync_appender(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let (path, size) = (options.text("path")?, options.whole("size", 512)?);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    let count = options.whole("count", u64::MAX)?;
    let record = vec![b'r'; size as usize];
    let file = File::create(path).with_context(|| format!("make {path}"))?;
    let mut at = 0;
    while figure.done() < count {
        file.write_all_at(&record, at)?;
        file.sync_all()?;
        at += size;
        if at > 4 << 20 {
            file.set_len(0)?;
            at = 0;
        }
        figure.count();
        std::thread::sleep(rest);
    }
    Ok(())
}

/// `--path FILE --mib M --size B --threads N --count C --cold 1|0`: random reads through the page
/// cache; cold ones are dropped from it right after. Reads that fail are not counted.
fn reader(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let (path, size) = (options.text("path")?, options.whole("size", 4096)?);
    let bytes = options.whole("mib", 64)? << 20;
    let (count, cold) = (options.whole("count", u64::MAX)?, options.whole("cold", 1)? == 1);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    fill_file(path, bytes)?;
    on_threads(options, |thread| {
        let mut rng = fastrand::Rng::with_seed(thread + 1);
        let file = File::open(path)?;
        if cold {
            forget(&file, 0, 0);
            // SAFETY: as in `forget`. Read-ahead would turn random reads into big ones.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
        }
        let mut block = vec![0; size as usize];
        while figure.done() < count {
            let at = rng.u64(0..(bytes / size).max(1)) * size;
            if file.read_exact_at(&mut block, at).is_ok() {
                figure.count();
            }
            if cold {
                forget(&file, at, size);
            }
            std::thread::sleep(rest);
        }
        Ok(())
    })
}

/// `--path FILE|DEVICE --mib M --size B --threads N --write 0|1 --rest-us R --count C --processes N --life-ms L`: random
/// requests past the page cache. Requests that fail are not counted.
fn direct(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let path = options.text("path")?;
    let size = options.whole("size", 4096)?;
    let bytes = options.whole("mib", 32)? << 20;
    let (count, write) = (options.whole("count", u64::MAX)?, options.whole("write", 0)? == 1);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    fill_file(path, bytes)?;
    processes::several(options)?;
    on_threads(options, |thread| {
        let mut rng = fastrand::Rng::with_seed(thread + 1);
        let file =
            OpenOptions::new().read(true).write(write).custom_flags(libc::O_DIRECT).open(path)?;
        let mut block = Aligned::new(size as usize);
        while figure.done() < count {
            let at = rng.u64(0..(bytes / size).max(1)) * size;
            let result = if write {
                file.write_all_at(block.bytes(), at)
            } else {
                file.read_exact_at(block.bytes(), at)
            };
            if result.is_ok() {
                figure.count();
            }
            std::thread::sleep(rest);
        }
        Ok(())
    })
}

/// `--paths A,B,C --mib M --size B`: one thread that reads a block of every file in turn, as a
/// stripe or a scan over several disks does.
fn spread_reader(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let size = options.whole("size", 4096)?;
    let bytes = options.whole("mib", 32)? << 20;
    let paths: Vec<&str> = options.text("paths")?.split(',').collect();
    for path in &paths {
        fill_file(path, bytes)?;
    }
    on_threads(options, |thread| {
        let mut rng = fastrand::Rng::with_seed(thread + 1);
        let open =
            |path: &&str| OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let files = paths.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut block = Aligned::new(size as usize);
        loop {
            for file in &files {
                let at = rng.u64(0..(bytes / size).max(1)) * size;
                file.read_exact_at(block.bytes(), at)?;
                figure.count();
            }
        }
    })
}

/// `--path FILE --mib M --rest-ms R`: writes M MiB through the page cache, then fsync, for ever.
fn bulk_writer(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let path = options.text("path")?;
    let mib = options.whole("mib", 16)?;
    let rest = Duration::from_millis(options.whole("rest-ms", 0)?);
    let block = vec![0x3c_u8; 1 << 20];
    loop {
        // A new file each time: its blocks are allocated and so ordered before the commit.
        std::fs::remove_file(path).ok();
        let file = File::create(path)?;
        for at in 0..mib {
            file.write_all_at(&block, at << 20)?;
        }
        file.sync_all()?;
        figure.count();
        std::thread::sleep(rest);
    }
}

/// `--path FILE --mib M --size B --threads N`: writes a file over and over through the page cache
/// and never asks for it to be on the disk.
fn buffered_writer(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let (path, size) = (options.text("path")?, options.whole("size", 65536)?);
    let bytes = options.whole("mib", 64)? << 20;
    let rest = Duration::from_micros(options.whole("rest-us", 200)?);
    on_threads(options, |thread| {
        let file = File::create(format!("{path}.{thread}"))?;
        let block = vec![0x77_u8; size as usize];
        let mut at = 0;
        loop {
            file.write_all_at(&block, at)?;
            at = (at + size) % bytes;
            figure.count();
            std::thread::sleep(rest);
        }
    })
}

/// `--path FILE --chunk B`: writes its output in chunks of B bytes; one operation is a kibibyte.
fn copier(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let chunk = vec![b'o'; options.whole("chunk", 4096)?.max(1) as usize];
    let file = File::create(options.text("path")?)?;
    let (mut at, mut counted) = (0_u64, 0_u64);
    loop {
        file.write_all_at(&chunk, at % (1 << 20))?;
        at += chunk.len() as u64;
        while counted < at >> 10 {
            figure.count();
            counted += 1;
        }
    }
}
