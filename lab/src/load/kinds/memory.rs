//! Loads that need memory: a working set of file pages, growing heaps, shared segments.
//!
//! Sizes come from the scenario, which is what bounds them: the host's memory is not the lab's. What they
//! share is made here and dies with them.

use crate::load::{Figure, Load, Options};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("working-set", Load::Pairs(working_set)),
    ("stream", Load::Pairs(stream)),
    ("heap-cycles", Load::Pairs(heap_cycles)),
    ("touch", Load::Pairs(touch)),
    ("shared-segment", Load::Pairs(shared_segment)),
    ("block-mapper", Load::Pairs(mapper)),
    ("spooler", Load::Pairs(spooler)),
    ("pieces", Load::Pairs(pieces)),
    ("huge-pages", Load::Pairs(huge_pages)),
];

/// Blocks from one read to the next: a prime, so that every block of a file has its turn.
const STRIDE: u64 = 7919;

/// `--path FILE --mib M --threads N`: reads all blocks of a file over and over, in an order that readahead does not guess;
/// it is quick as long as the file stays in memory. One operation is 256 KiB.
fn working_set(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let path = options.text("path")?;
    let blocks = options.whole("mib", 64)? * 4;
    let rest = Duration::from_micros(options.whole("rest-us", 300)?);
    if !std::fs::metadata(path).is_ok_and(|m| m.len() >= blocks << 18) {
        let file = File::create(path).with_context(|| format!("make {path}"))?;
        let block = vec![1_u8; 1 << 18];
        for at in 0..blocks {
            file.write_all_at(&block, at << 18)?;
        }
        file.sync_all()?;
    }
    let threads = options.whole("threads", 1)?.max(1);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || -> Result<()> {
                let file = File::open(path)?;
                let mut block = vec![0_u8; 1 << 18];
                let mut at = thread * blocks / threads;
                loop {
                    file.read_exact_at(&mut block, (at * STRIDE % blocks) << 18)?;
                    at += 1;
                    figure.count();
                    std::thread::sleep(rest);
                }
            });
        }
    });
    Ok(())
}

/// `--path FILE --rest-us R`: reads on through a file that nobody could hold, each page once, and does a little with each block. The
/// file is one hole, so no disk makes it slower than the page cache is. One operation is 256 KiB.
fn stream(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let path = options.text("path")?;
    File::create(path).and_then(|file| file.set_len(1 << 40)).with_context(|| path.to_string())?;
    let mut file = File::open(path)?;
    let mut block = vec![0_u8; 1 << 18];
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    loop {
        file.read_exact(&mut block)?;
        std::hint::black_box(block.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        figure.count();
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
    }
}

/// `--mib M --rest-ms R`: a job starter; each job is a child that fills M MiB and ends. A job that is
/// killed is started again and not counted.
fn heap_cycles(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let mib = options.whole("mib", 64)?;
    let rest = Duration::from_millis(options.whole("rest-ms", 30)?);
    loop {
        let job = std::env::current_exe()?;
        let status =
            std::process::Command::new(job).args(["touch", "--mib", &mib.to_string()]).status()?;
        if status.success() {
            figure.count();
        }
        std::thread::sleep(rest);
    }
}

/// `--mib M --stay 0|1`: fills M MiB of private memory, page by page.
fn touch(options: &Options) -> Result<()> {
    let mut memory = vec![0_u8; (options.whole("mib", 64)? << 20) as usize];
    for at in (0..memory.len()).step_by(4096) {
        memory[at] = 1;
    }
    std::hint::black_box(&memory);
    if options.whole("stay", 0)? == 1 {
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    Ok(())
}

/// `--mib M --fill F`: a master maps M MiB of shared anonymous memory; a child fills F MiB of it and
/// ends, so that they are nobody's resident set. One operation is one look at the first byte.
fn shared_segment(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let size = (options.whole("mib", 512)? << 20) as usize;
    let fill = ((options.whole("fill", 256)? << 20) as usize).min(size);
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let begin = map(size, flags).context("map shared memory")?;
    // SAFETY: the mapping of `size` bytes is never unmapped; the child only writes inside it and leaves without
    // running anything else.
    unsafe {
        match libc::fork() {
            -1 => bail!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                for at in (0..fill).step_by(4096) {
                    begin.add(at).write_volatile(1);
                }
                libc::_exit(0);
            }
            child => libc::waitpid(child, std::ptr::null_mut(), 0),
        };
    }
    loop {
        // SAFETY: inside the mapping above.
        std::hint::black_box(unsafe { begin.read_volatile() });
        figure.count();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `--kib K --rest-us R`: keeps each request in a file in memory for as long as it works on it.
fn spooler(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let request = vec![1_u8; (options.whole("kib", 512)? << 10) as usize];
    let rest = Duration::from_micros(options.whole("rest-us", 1000)?);
    loop {
        // SAFETY: a new descriptor, which nobody else has; the name is a C string.
        let mut file = unsafe {
            match libc::memfd_create(c"request".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => bail!("memfd_create: {}", std::io::Error::last_os_error()),
                number => File::from_raw_fd(number),
            }
        };
        file.write_all(&request)?;
        drop(file);
        figure.count();
        std::thread::sleep(rest);
    }
}

/// `--keep 0|1 --kib K --threads N`: fills a buffer of K KiB per request; without `keep` it is mapped
/// and unmapped each time.
fn mapper(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let size = (options.whole("kib", 1024)? << 10) as usize;
    let keep = options.whole("keep", 1)? == 1;
    let threads = options.whole("threads", 1)?.max(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                let mut mapped = map_pages(size);
                while let Some(begin) = mapped {
                    for at in (0..size).step_by(4096) {
                        // SAFETY: inside the mapping of `size` bytes.
                        unsafe { begin.add(at).write_volatile(1) };
                    }
                    figure.count();
                    if !keep {
                        // SAFETY: unmaps what was mapped above; nothing else points into it.
                        unsafe { libc::munmap(begin.cast(), size) };
                        mapped = map_pages(size);
                    }
                }
            });
        }
    });
    bail!("mmap: {}", std::io::Error::last_os_error())
}

const PAGE_BYTES: usize = 4096;

/// `--leave-mib M --ready FILE`: takes all memory but so much in small pages, gives every other one back, makes the file and
/// holds the rest: what is free then lies in pieces. For a guest of its own.
fn pieces(options: &Options) -> Result<()> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let available = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let kib = kib.context("no MemAvailable in /proc/meminfo")?;
    let size = (kib.saturating_sub(options.whole("leave-mib", 256)? << 10) << 10) as usize;
    let begin = map_pages(size).context("mmap")?;
    for at in (0..size).step_by(PAGE_BYTES) {
        // SAFETY: within the mapping just made, which nobody else knows.
        unsafe { begin.add(at).write_volatile(1) };
    }
    for at in (0..size).step_by(2 * PAGE_BYTES) {
        // SAFETY: advice on a page of the same mapping, whose data nobody reads.
        unsafe { libc::madvise(begin.add(at).cast(), PAGE_BYTES, libc::MADV_DONTNEED) };
    }
    File::create(options.text("ready")?)?;
    loop {
        std::thread::park();
    }
}

/// `--mib M`: writes to so much new memory, for which it asks huge pages; prints the milliseconds that it took.
fn huge_pages(options: &Options) -> Result<()> {
    let size = (options.whole("mib", 256)? << 20) as usize;
    let begun = Instant::now();
    let begin = map(size, libc::MAP_PRIVATE)?;
    // SAFETY: advice on the mapping that was just made.
    unsafe { libc::madvise(begin.cast(), size, libc::MADV_HUGEPAGE) };
    for at in (0..size).step_by(PAGE_BYTES) {
        // SAFETY: within that mapping, which nobody else knows.
        unsafe { begin.add(at).write_volatile(1) };
    }
    writeln!(std::io::stdout(), "{}", begun.elapsed().as_millis())?;
    Ok(())
}

/// Private pages, small ones, so that every page that is touched is a fault.
fn map_pages(size: usize) -> Option<*mut u8> {
    let begin = map(size, libc::MAP_PRIVATE).ok()?;
    // SAFETY: advice on the mapping that was just made.
    unsafe { libc::madvise(begin.cast(), size, libc::MADV_NOHUGEPAGE) };
    Some(begin)
}

/// New anonymous memory to read and write.
fn map(size: usize, flags: i32) -> std::io::Result<*mut u8> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
    // SAFETY: where the kernel likes, so that it replaces no other mapping.
    let begin = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
    match begin {
        libc::MAP_FAILED => Err(std::io::Error::last_os_error()),
        begin => Ok(begin.cast()),
    }
}
