//! What the device mapper's targets say of themselves: today the hits and misses of disk caches.
//!
//! One ioctl, DM_TABLE_STATUS (include/uapi/linux/dm-ioctl.h), asked by device number, for the table and for the
//! status. It is asked with DM_NOFLUSH_FLAG: without it dm-cache commits its metadata first, which writes to the
//! disks that are looked at. The control node is opened only where a mapped disk stands on several others, because
//! opening it loads the module. Rejected: the devicemapper crate (bindgen and nix for one call), `dmsetup` (no
//! process is started while looking). Must not: change a table, send a message, wait for a device.
//!
//! Two formats of a `cache` target are read: that of the kernel since 3.9
//! (Documentation/admin-guide/device-mapper/cache.rst), and the one before it that was kept out of the tree, which
//! tells hits as if they were hundredths: its own ratio is not used.

use super::look::Look;
use super::reader::{Opening, Reader};
use crate::SourceError;
use crate::system::clock::now;
use crate::system::guard::{self, Undone};
use crate::system::{Roots, mounts, text};
use holdup_reason::facts::{Body, DeviceNumber, Disk, DiskCacheSample, Fact};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

const HEADER: usize = 312;
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGETS: usize = 20;
const FLAGS: usize = 28;
const DEVICE: usize = 40;
/// A `dm_target_spec` before each target's text, and where in it the next one and the type stand.
const SPEC: usize = 40;
const SPEC_NEXT: usize = 20;
const SPEC_TYPE: std::ops::Range<usize> = 24..40;
const STATUS_TABLE: u32 = 1 << 4;
const BUFFER_FULL: u32 = 1 << 8;
const NOFLUSH: u32 = 1 << 11;
const TABLE_STATUS: libc::Ioctl = libc::_IOWR::<[u8; HEADER]>(0xfd, 12);
const BUFFER_MIN: usize = 16 << 10;
const BUFFER_MAX: usize = 1 << 20;
/// Devices that a look asks: a host with more mapped disks than this has no time for all of them.
const DEVICES_MAX: usize = 64;
const SECTOR_BYTES: u64 = 512;

/// The caches of a host, asked again and again.
#[derive(Debug, Default)]
pub struct Mapper {
    control: Option<Arc<File>>,
    caches: Vec<DeviceNumber>,
}

impl Mapper {
    /// Finds the caches among the mapped disks and reads them once.
    fn find(roots: &Roots, disks: &[Disk]) -> (Self, Vec<Body>) {
        let stands_on_several = |disk: &&Disk| disk.mapped_name.is_some() && disk.below.len() > 1;
        let caches: Vec<DeviceNumber> =
            disks.iter().filter(stands_on_several).map(|disk| disk.dev).take(DEVICES_MAX).collect();
        if caches.is_empty() {
            return (Self::default(), Vec::new());
        }
        match File::options().read(true).write(true).open(roots.resolve("/dev/mapper/control")) {
            Ok(control) => {
                let mut mapper = Self { control: Some(Arc::new(control)), caches };
                let first = mapper.samples();
                let reported = |dev: &DeviceNumber| {
                    first.iter().any(|b| matches!(b, Body::DiskCacheSample(s) if s.dev == *dev))
                };
                mapper.caches.retain(reported);
                (mapper, first)
            }
            Err(error) => (Self::default(), vec![blind(&error)]),
        }
    }

    /// All caches as they are now; what cannot be asked is reported.
    pub fn samples(&self) -> Vec<Body> {
        let Some(control) = self.control.clone() else { return Vec::new() };
        // The target takes a lock that its own commits hold while they write.
        let answers = guard::attempt(self.caches.clone(), move |dev| sample(&control, *dev));
        let mut reported = Vec::new();
        for (dev, answer) in self.caches.iter().zip(answers) {
            match answer {
                Ok(Ok(sample)) => reported.extend(sample.map(Body::DiskCacheSample)),
                Ok(Err(error)) if crate::system::is_refusal(&error) => {
                    return vec![blind(&error)];
                }
                // A device that went away meanwhile.
                Ok(Err(_)) => {}
                Err(undone) => reported.push(unasked(*dev, undone)),
            }
        }
        reported
    }
}

impl Reader for Mapper {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let (mapper, caches) = Self::find(&look.roots, &opening.settings.disks);
        caches.into_iter().for_each(|body| opening.put(body));
        Ok(mapper)
    }

    fn close(&mut self, _: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let at_ns = now();
        facts.extend(self.samples().into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

fn blind(error: &io::Error) -> Body {
    Body::Blind(crate::system::blind(
        "dm.control",
        error,
        "hits and misses of disk caches are unknown",
    ))
}

/// A device of which nothing is known, though it is there.
fn unasked(dev: DeviceNumber, undone: Undone) -> Body {
    let why = match undone {
        Undone::Hung => format!("the device mapper did not answer in time for {dev}"),
        Undone::NoThread => format!(
            "no thread could be begun to ask for {dev}: a limit on threads is met, or memory is short"
        ),
    };
    let therefore = "whether that is a disk cache, and its hits and misses, are unknown";
    Body::Blind(crate::system::blind("dm.status", &io::Error::other(why), therefore))
}

fn sample(control: &File, dev: DeviceNumber) -> io::Result<Option<DiskCacheSample>> {
    let status = ask(control, dev, 0)?;
    if of_cache(&status).is_none() {
        return Ok(None);
    }
    Ok(cache_sample(dev, &ask(control, dev, STATUS_TABLE)?, &status))
}

/// What the two answers about a device, its table and its status, tell of a cache; any bytes may come in.
pub fn cache_sample(dev: DeviceNumber, table: &[u8], status: &[u8]) -> Option<DiskCacheSample> {
    cache(dev, &of_cache(table)?, &of_cache(status)?)
}

fn of_cache(answer: &[u8]) -> Option<String> {
    targets(answer).into_iter().find(|target| target.kind == "cache").map(|target| target.text)
}

/// One target of a device.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    kind: String,
    text: String,
}

fn ask(control: &File, dev: DeviceNumber, flags: u32) -> io::Result<Vec<u8>> {
    let mut size = BUFFER_MIN;
    loop {
        let mut buffer = request(dev, flags, size);
        // SAFETY: the kernel reads and writes at most DATA_SIZE bytes of the buffer, which is its length.
        let result = unsafe { libc::ioctl(control.as_raw_fd(), TABLE_STATUS, buffer.as_mut_ptr()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        if word(&buffer, FLAGS).unwrap_or(0) & BUFFER_FULL == 0 || size >= BUFFER_MAX {
            return Ok(buffer);
        }
        size *= 2;
    }
}

fn request(dev: DeviceNumber, flags: u32, size: usize) -> Vec<u8> {
    let mut buffer = vec![0; size];
    let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &4_u32.to_ne_bytes()); // the interface's major version; any minor one will do
    put(DATA_SIZE, &(size as u32).to_ne_bytes());
    put(DATA_START, &(HEADER as u32).to_ne_bytes());
    put(FLAGS, &(flags | NOFLUSH).to_ne_bytes());
    // As user space encodes a device number: the minor's low byte, the major, the rest of the minor.
    let (major, minor) = (u64::from(dev.major), u64::from(dev.minor));
    put(DEVICE, &(minor & 0xff | major << 8 | (minor & !0xff) << 12).to_ne_bytes());
    buffer
}

fn word(buffer: &[u8], at: usize) -> Option<u32> {
    let bytes = buffer.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// The targets that an answer holds; a part that does not fit its own offsets ends it.
fn targets(buffer: &[u8]) -> Vec<Target> {
    let mut found = Vec::new();
    let Some(start) = word(buffer, DATA_START).map(|start| start as usize) else { return found };
    let mut at = start;
    for _ in 0..word(buffer, TARGETS).unwrap_or(0) {
        let Some(spec) = buffer.get(at..).filter(|rest| rest.len() > SPEC) else { break };
        found.push(Target { kind: until_nul(&spec[SPEC_TYPE]), text: until_nul(&spec[SPEC..]) });
        match word(spec, SPEC_NEXT).and_then(|next| start.checked_add(next as usize)) {
            Some(next) if next > at => at = next,
            _ => break,
        }
    }
    found
}

fn until_nul(bytes: &[u8]) -> String {
    text::lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// A `cache` target by its table and its status; nothing if it has failed, or in a format unknown here.
fn cache(dev: DeviceNumber, table: &str, status: &str) -> Option<DiskCacheSample> {
    match status.strip_prefix("stats:") {
        Some(stats) => old_cache(dev, table, stats),
        None => new_cache(dev, table, status),
    }
}

fn new_cache(dev: DeviceNumber, table: &str, status: &str) -> Option<DiskCacheSample> {
    let mut words = status.split_ascii_whitespace();
    let (_metadata_block, _metadata_used) = (words.next()?, words.next()?);
    let block_sectors: u64 = words.next()?.parse().ok()?;
    let (used, blocks) = words.next()?.split_once('/')?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (read_hits, read_misses, write_hits, write_misses) =
        (number()?, number()?, number()?, number()?);
    let (demotions, promotions, dirty) = (number()?, number()?, number()?);
    let features = number()? as usize;
    let rest: Vec<&str> = words.collect();
    let mode = rest
        .iter()
        .take(features)
        .find(|feature| matches!(**feature, "writeback" | "writethrough" | "passthrough"));
    let core = rest.get(features..).unwrap_or_default();
    let migration_threshold = core
        .windows(2)
        .find_map(|pair| (pair[0] == "migration_threshold").then(|| pair[1].parse().ok())?);
    let mut below = table.split_ascii_whitespace().map(|word| mounts::device(word.as_bytes()));
    let (_metadata, fast, origin) = (below.next(), below.next(), below.next());
    Some(DiskCacheSample {
        dev,
        origin: origin.flatten(),
        fast: fast.flatten(),
        hits: read_hits.saturating_add(write_hits),
        misses: read_misses.saturating_add(write_misses),
        promotions,
        demotions,
        demotions_dirty: None,
        block_bytes: block_sectors.saturating_mul(SECTOR_BYTES),
        blocks: blocks.parse().ok()?,
        blocks_used: used.parse().ok(),
        blocks_dirty: Some(dirty),
        migration_threshold,
        mode: mode.copied().unwrap_or_default().into(),
    })
}

/// `reads(R), writes(W), cache hits(H, 0.x),replacement(M), replaced dirty blocks(D)` and
/// `conf: capacity(CM), associativity(A), block size(BK), write-back`.
fn old_cache(dev: DeviceNumber, table: &str, stats: &str) -> Option<DiskCacheSample> {
    let number = |text: &str, name: &str, unit: char| {
        let (_, rest) = text.split_once(&format!("{name}("))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number = rest[..digits].parse::<u64>().ok()?;
        rest[digits..].starts_with(unit).then_some(number)
    };
    let within =
        |text: &str, name: &str| number(text, name, ')').or_else(|| number(text, name, ','));
    let asked = within(stats, "reads")?.checked_add(within(stats, "writes")?)?;
    let hits = within(stats, "cache hits")?;
    let block_bytes = number(table, "block size", 'K')?.checked_mul(1 << 10)?;
    let capacity_bytes = number(table, "capacity", 'M')?.checked_mul(1 << 20)?;
    let demotions = within(stats, "replacement")?;
    Some(DiskCacheSample {
        dev,
        hits,
        misses: asked.checked_sub(hits)?,
        // Each block that was replaced made room for one.
        promotions: demotions,
        demotions,
        demotions_dirty: within(stats, "replaced dirty blocks"),
        block_bytes,
        blocks: capacity_bytes.checked_div(block_bytes)?,
        mode: if table.trim_end().ends_with("write-back") { "writeback" } else { "writethrough" }
            .into(),
        ..DiskCacheSample::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: DeviceNumber = DeviceNumber { major: 253, minor: 300 };

    #[test]
    fn the_kernels_format() {
        let table = "252:2 252:1 252:0 64 1 writethrough smq 0";
        let status = "8 27/65536 64 512/512 9 700 51 260 3 515 0 2 writethrough metadata2 2 \
                      migration_threshold 2048 smq 0 rw - ";
        let sample = cache(DEV, table, status).expect("read");
        assert_eq!((sample.hits, sample.misses), (60, 960));
        assert_eq!((sample.demotions, sample.promotions), (3, 515));
        assert_eq!(
            (sample.block_bytes, sample.blocks, sample.blocks_used),
            (32768, 512, Some(512))
        );
        assert_eq!(sample.origin, Some(DeviceNumber { major: 252, minor: 0 }));
        assert_eq!(sample.fast, Some(DeviceNumber { major: 252, minor: 1 }));
        assert_eq!((sample.migration_threshold, &*sample.mode), (Some(2048), "writethrough"));
    }

    #[test]
    fn the_format_before_it_with_the_ratio_that_it_gets_wrong() {
        let status = "stats: reads(301319), writes(353216), cache hits(24485, 0.3),replacement(345972), \
                      replaced dirty blocks(92857)";
        let table = "conf: capacity(256M), associativity(16), block size(4K), write-back";
        let sample = cache(DEV, table, status).expect("read");
        let asked = sample.hits + sample.misses;
        let share = |part: u64, whole: u64| (part as f64 / whole as f64 * 1000.0).round() / 10.0;
        assert_eq!((asked, share(sample.hits, asked)), (654_535, 3.7));
        assert_eq!(share(sample.demotions, asked), 52.9);
        assert_eq!(share(sample.demotions_dirty.expect("reported"), sample.demotions), 26.8);
        assert_eq!(sample.blocks * sample.block_bytes, 256 << 20);
    }

    #[test]
    fn a_device_that_hangs_is_not_one_that_nobody_could_ask() {
        let why = |undone| match unasked(DEV, undone) {
            Body::Blind(blind) => blind.why,
            _ => String::new(),
        };
        assert_eq!(why(Undone::Hung), "the device mapper did not answer in time for 253:300");
        assert!(why(Undone::NoThread).starts_with("no thread could be begun to ask for 253:300"));
    }

    #[test]
    fn a_failed_cache_and_foreign_words_are_unknown() {
        for status in ["Fail", "Error", "", "stats: reads(", "8 1/2 64 1 2 3", "8 1/2 64 1/x 1 1"] {
            assert_eq!(cache(DEV, "", status), None, "{status}");
        }
        let status = "stats: reads(3), writes(5), cache hits(2, 0.25),replacement(1)";
        let reported = |table: &str| cache(DEV, table, status).map(|sample| sample.block_bytes);
        assert_eq!(reported("conf: capacity(256M), block size(4K), write-back"), Some(4096));
        assert_eq!(reported("conf: capacity(256M), block size(4096), write-back"), None);
        assert_eq!(reported("conf: capacity(1G), block size(4K), write-back"), None);
    }

    #[test]
    fn an_answer_is_cut_at_its_offsets() {
        let mut answer = request(DEV, 0, 1024);
        assert_eq!(answer[DEVICE..DEVICE + 8], [44, 253, 0x10, 0, 0, 0, 0, 0]);
        answer[TARGETS] = 3;
        let mut put = |at: usize, next: u32, kind: &[u8], text: &[u8]| {
            let spec = &mut answer[HEADER + at..];
            spec[SPEC_NEXT..SPEC_NEXT + 4].copy_from_slice(&next.to_ne_bytes());
            spec[24..24 + kind.len()].copy_from_slice(kind);
            spec[SPEC..SPEC + text.len()].copy_from_slice(text);
        };
        put(0, 56, b"linear", b"8:1 0");
        put(56, 99_999, b"cache", b"Fail");
        let kinds: Vec<String> =
            targets(&answer).into_iter().map(|t| t.kind + " " + &t.text).collect();
        assert_eq!(kinds, ["linear 8:1 0", "cache Fail"]);
        assert_eq!(targets(&answer[..HEADER]), []);
        assert_eq!(targets(&[]), []);
    }
}
