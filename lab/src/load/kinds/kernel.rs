//! Loads that meet locks of the kernel: makers of files, writers of one file, a lister of a directory, a program that maps and unmaps, a monitor
//! that reads another's mappings.
//!
//! Each does honest work; which lock it shares with whom is the scenario's. Must not: hold anything longer than the
//! system call that it makes.

use crate::load::{Figure, Load, Options, processes};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] = &[
    ("appender", Load::Pairs(appender)),
    ("file-maker", Load::Pairs(file_maker)),
    ("directory-lister", Load::Pairs(directory_lister)),
    ("mapper", Load::Pairs(mapper)),
    ("memory-monitor", Load::Pairs(memory_monitor)),
];

const PAUSE: Duration = Duration::from_millis(20);

/// `--path P --size S --threads N --rest-us R --count C`: threads that append to one file past the page cache: the inode is
/// locked while a write that makes it longer is under way.
fn appender(options: &Options) -> Result<()> {
    const BYTES_MAX: u64 = 32 << 20;
    let figure = Figure::open()?;
    let size = options.whole("size", 4096)? as usize;
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    let count = options.whole("count", u64::MAX)?;
    let path = options.text("path")?;
    let append = || -> Result<()> {
        // Of its own: a shared one has one position, and a lock for that.
        let mut file =
            File::options().append(true).create(true).custom_flags(libc::O_DIRECT).open(path)?;
        let buffer = vec![b'a'; size + 4096];
        let at = buffer.as_ptr().align_offset(4096);
        while figure.done() < count {
            file.write_all(&buffer[at..at + size])?;
            if file.metadata()?.len() > BYTES_MAX {
                file.set_len(0)?;
            }
            figure.count();
            std::thread::sleep(rest);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..options.whole("threads", 1)?).map(|_| scope.spawn(append)).collect();
        threads
            .into_iter()
            .try_for_each(|it| it.join().unwrap_or_else(|_| bail!("a thread failed")))
    })
}

/// `--dir D --processes N --rest-us R --count C`: each process makes a file and removes it again.
fn file_maker(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let dir = Path::new(options.text("dir")?);
    let rest = Duration::from_micros(options.whole("rest-us", 0)?);
    let count = options.whole("count", u64::MAX)?;
    processes::several(options)?;
    let own = std::process::id();
    for at in 0_u64.. {
        if figure.done() >= count {
            break;
        }
        let path = dir.join(format!("{own}-{at}"));
        File::create_new(&path).with_context(|| path.display().to_string())?;
        std::fs::remove_file(&path)?;
        figure.count();
        std::thread::sleep(rest);
    }
    Ok(())
}

/// `--dir D --switch FILE`: lists a directory again and again, many names a call, as programs do that have millions to list:
/// the one that the switch names, or D.
fn directory_lister(options: &Options) -> Result<()> {
    let own = options.text("dir")?.to_owned();
    let switch = options.text("switch")?;
    let mut names = vec![0_u8; 16 << 20];
    loop {
        let dir = std::fs::read_to_string(switch).unwrap_or_else(|_| own.clone());
        let dir = File::open(dir.trim()).with_context(|| dir.clone())?;
        for _ in 0..20 {
            // SAFETY: as many bytes as the buffer has may be written to it, by a descriptor that is open.
            let got = unsafe {
                libc::lseek(dir.as_raw_fd(), 0, libc::SEEK_SET);
                libc::syscall(
                    libc::SYS_getdents64,
                    dir.as_raw_fd(),
                    names.as_mut_ptr(),
                    names.len(),
                )
            };
            if got < 0 {
                bail!("getdents64: {}", std::io::Error::last_os_error());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `--image-mib M --rest-us R --count C`: has an image of small pages, and maps and unmaps a block for each operation.
fn mapper(options: &Options) -> Result<()> {
    const BLOCK_BYTES: usize = 64 << 10;
    let figure = Figure::open()?;
    let mut image = vec![0_u8; (options.whole("image-mib", 512)? << 20) as usize];
    // SAFETY: advice on memory that this function owns; it changes no data.
    unsafe { libc::madvise(image.as_mut_ptr().cast(), image.len(), libc::MADV_NOHUGEPAGE) };
    for at in (0..image.len()).step_by(4096) {
        image[at] = 1;
    }
    let rest = Duration::from_micros(options.whole("rest-us", 1000)?);
    let count = options.whole("count", u64::MAX)?;
    while figure.done() < count {
        // SAFETY: a new private mapping, written to within its length and unmapped again by its own address.
        unsafe {
            let (access, how) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let block = libc::mmap(std::ptr::null_mut(), BLOCK_BYTES, access, how, -1, 0);
            if block == libc::MAP_FAILED {
                bail!("mmap: {}", std::io::Error::last_os_error());
            }
            block.cast::<u8>().write_volatile(1);
            libc::munmap(block, BLOCK_BYTES);
        }
        figure.count();
        std::thread::sleep(rest);
    }
    std::hint::black_box(&image);
    Ok(())
}

/// `--switch FILE`: reads /proc/PID/smaps of the process that the switch names again and again.
fn memory_monitor(options: &Options) -> Result<()> {
    let switch = options.text("switch")?;
    let mut text = String::new();
    loop {
        let Ok(pid) = std::fs::read_to_string(switch) else {
            std::thread::sleep(PAUSE);
            continue;
        };
        text.clear();
        let read = File::open(format!("/proc/{}/smaps", pid.trim()))
            .and_then(|mut file| file.read_to_string(&mut text));
        if read.is_err() {
            std::thread::sleep(PAUSE);
        }
        std::hint::black_box(&text);
    }
}
