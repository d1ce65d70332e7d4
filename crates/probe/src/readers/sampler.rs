//! Counters of the whole host: of disks ten times a second, because what is in flight is only seen at the
//! moment; of CPUs, memory and pressure, which are totals or move with the disks, twice a second, and while disks
//! stand still every five seconds and at both ends of the look.
//!
//! The descriptors stay open and are read again from the start: the kernel makes the text anew on
//! each read at offset 0. A file that cannot be read is reported once as blind and not tried again. Rejected: the parsers
//! of procfs_core, which make a table of names of each file, anew for each reading.

use super::look::Look;
use super::reader::{Opening, Reader, Tick};
use super::standstill::Standstill;
use crate::SourceError;
use crate::system::clock::now;
use crate::system::{Roots, blind, text, units};
use holdup_reason::facts::{
    Body, CpuSample, DeviceNumber, DiskSample, Fact, MemorySample, Ns, Pressure,
};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const SECTOR_BYTES: u64 = 512;

/// Reads all counters of the host; keep it for the length of a look.
pub struct Sampler {
    block: PathBuf,
    diskstats: OpenFile,
    stat: OpenFile,
    meminfo: OpenFile,
    vmstat: OpenFile,
    pressure: [OpenFile; 3],
    /// Whether a name is a whole disk, as far as it was asked.
    whole: HashMap<Vec<u8>, bool>,
    /// Disks that have moved at some time.
    moved: HashMap<DeviceNumber, bool>,
    ns_per_tick: u64,
    buffer: Vec<u8>,
    standstill: Standstill,
    /// Since all counters were read.
    ticks: u32,
}

/// Ticks between two readings of all counters; and while disks stand still.
const ALL_TICKS: u32 = 5;
const ALL_TICKS_STILL: u32 = 50;

/// A file that is held open.
struct OpenFile {
    file: Option<File>,
    blind: Option<Body>,
}

impl OpenFile {
    fn open(path: PathBuf, what: &str, therefore: &str) -> Self {
        match File::open(path) {
            Ok(file) => Self { file: Some(file), blind: None },
            Err(error) => {
                // PSI that is compiled in and switched off refuses to open.
                let mut blind = blind(what, &error, therefore);
                if what.starts_with("proc.pressure") {
                    blind.remedy = "boot with psi=1".into();
                }
                Self { file: None, blind: Some(Body::Blind(blind)) }
            }
        }
    }

    /// Reads it again whole. The buffer grows to what it needs and stays.
    fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        let file = self.file.as_ref()?;
        let mut filled = 0;
        loop {
            if buffer.len() - filled < 4096 {
                buffer.resize(buffer.len().max(8192) * 2, 0);
            }
            match file.read_at(&mut buffer[filled..], filled as u64) {
                Ok(0) => return Some(&buffer[..filled]),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

impl Sampler {
    /// Opens the files.
    pub fn new(roots: &Roots) -> Self {
        let open = |name: &str, therefore: &str| {
            let what = format!("proc.{}", name.replace('/', "."));
            OpenFile::open(roots.proc.join(name), &what, therefore)
        };
        let stalls = "pressure totals are missing from the evidence";
        Self {
            block: roots.sys.join("block"),
            diskstats: open("diskstats", "how busy disks are is unknown"),
            stat: open("stat", "how busy CPUs are is unknown"),
            meminfo: open("meminfo", "the state of memory is unknown"),
            vmstat: open("vmstat", "reclaim and swapping are unknown"),
            pressure: [
                open("pressure/cpu", stalls),
                open("pressure/io", stalls),
                open("pressure/memory", stalls),
            ],
            whole: HashMap::new(),
            moved: HashMap::new(),
            ns_per_tick: 1_000_000_000 / units::ticks_per_second(),
            buffer: Vec::new(),
            standstill: Standstill::default(),
            ticks: 0,
        }
    }

    /// What is due at a tick; `queued` says whether a bio was since the one before, if that is known, and `again`
    /// whether disks are read in any case.
    fn due(&mut self, queued: Option<bool>, again: bool) -> Vec<Body> {
        self.ticks += 1;
        let still = self.standstill.tick(queued, again);
        let due = if self.standstill.is_still() { ALL_TICKS_STILL } else { ALL_TICKS };
        if self.ticks >= due {
            return self.sample();
        }
        still.unwrap_or_else(|| self.disks())
    }

    /// One reading of all counters; the first one also says what cannot be read.
    pub fn sample(&mut self) -> Vec<Body> {
        self.ticks = 0;
        let mut facts = Vec::new();
        let [cpu, io, memory] = &mut self.pressure;
        for file in [&mut self.diskstats, &mut self.stat, &mut self.meminfo, &mut self.vmstat]
            .into_iter()
            .chain([cpu, io, memory])
        {
            facts.extend(file.blind.take());
        }
        facts.extend(self.disks());
        self.cpus(&mut facts);
        facts.extend(self.memory().map(Body::MemorySample));
        facts.extend(self.pressure().map(Body::Pressure));
        facts
    }

    fn disks(&mut self) -> Vec<Body> {
        let mut facts = Vec::new();
        let Some(bytes) = self.diskstats.read(&mut self.buffer) else { return facts };
        for (name, sample) in text::lines(bytes).filter_map(disk) {
            let is_whole = match self.whole.get(name) {
                Some(known) => *known,
                None => {
                    let entry = self.block.join(text::lossy(name).replace('/', "!"));
                    let is_whole = std::fs::symlink_metadata(entry).is_ok();
                    self.whole.insert(name.to_vec(), is_whole);
                    is_whole
                }
            };
            if !is_whole {
                continue;
            }
            let moved = self.moved.entry(sample.dev).or_default();
            *moved |= [sample.reads, sample.writes, sample.flushes, sample.in_flight] != [0; 4];
            if *moved {
                facts.push(Body::DiskSample(sample));
            }
        }
        self.standstill.read(&facts);
        facts
    }

    fn cpus(&mut self, facts: &mut Vec<Body>) {
        let Some(bytes) = self.stat.read(&mut self.buffer) else { return };
        let lines = text::lines(bytes).take_while(|line| line.starts_with(b"cpu"));
        facts.extend(lines.filter_map(|l| cpu(l, self.ns_per_tick)).map(Body::CpuSample));
    }

    fn memory(&mut self) -> Option<MemorySample> {
        let mut memory = MemorySample::default();
        let info = self.meminfo.read(&mut self.buffer)?;
        text::pairs(info)
            .for_each(|(key, kib)| memory_info(&mut memory, key, kib.saturating_mul(1024)));
        let events = self.vmstat.read(&mut self.buffer).unwrap_or_default();
        text::pairs(events).for_each(|(key, count)| memory_event(&mut memory, key, count));
        Some(memory)
    }

    fn pressure(&mut self) -> Option<Pressure> {
        let [cpu, io, memory] = &self.pressure;
        let [cpu, io, memory] = [cpu, io, memory].map(|file| {
            let bytes = file.read(&mut self.buffer)?;
            Some(["some", "full"].map(|word| stall_us(bytes, word).unwrap_or(0)))
        });
        if cpu.is_none() && io.is_none() && memory.is_none() {
            return None;
        }
        let [cpu_some_us, _] = cpu.unwrap_or_default();
        let [io_some_us, io_full_us] = io.unwrap_or_default();
        let [memory_some_us, memory_full_us] = memory.unwrap_or_default();
        Some(Pressure { cpu_some_us, io_some_us, io_full_us, memory_some_us, memory_full_us })
    }
}

impl Reader for Sampler {
    fn open(look: &mut Look, opening: &mut Opening) -> Result<Self, SourceError> {
        let mut sampler = Self::new(&look.roots);
        sampler.sample().into_iter().for_each(|body| opening.put(body));
        Ok(sampler)
    }

    fn slept(&mut self, at_ns: Ns, facts: &mut Vec<Fact>) {
        self.ticks += 1;
        facts.extend(self.standstill.slept().into_iter().map(|body| Fact { at_ns, body }));
    }

    fn tick(
        &mut self,
        _: &mut Look,
        tick: &Tick,
        facts: &mut Vec<Fact>,
    ) -> Result<(), SourceError> {
        let at_ns = now();
        let reported = match tick.is_last {
            true => self.sample(),
            false => self.due(tick.queued.bio, tick.again),
        };
        facts.extend(reported.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }

    fn is_still(&self) -> bool {
        self.standstill.is_still()
    }

    fn due_ticks(&self) -> u64 {
        match self.standstill.is_still() {
            true => u64::from(ALL_TICKS_STILL.saturating_sub(self.ticks)),
            false => 1,
        }
    }
}

/// The total of a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=111`. Before 5.13 the
/// CPU has no `full` line, which procfs_core's parser does not accept.
fn stall_us(bytes: &[u8], word: &str) -> Option<u64> {
    let line = text::lines(bytes).find(|line| line.starts_with(word.as_bytes()))?;
    text::words(line).find_map(|word| text::number(word.strip_prefix(b"total=")?))
}

/// A line of diskstats: the device's name, and its counters as Documentation/admin-guide/iostats.rst counts them.
fn disk(line: &[u8]) -> Option<(&[u8], DiskSample)> {
    let mut words = text::words(line);
    let mut number = || text::number(words.next()?);
    let dev = DeviceNumber { major: number()? as u32, minor: number()? as u32 };
    let name = words.next()?;
    let mut fields = [0; 16];
    let mut found = 0;
    for (slot, word) in fields.iter_mut().zip(words) {
        *slot = text::number(word)?;
        found += 1;
    }
    let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, rest @ ..] = fields;
    // Discards came with 4.18, flushes with 5.5.
    let [in_flight, busy_ms, weighted_ms, _, _, _, _, flushes] = rest;
    let sample = DiskSample {
        dev,
        reads,
        read_bytes: read_sectors.saturating_mul(SECTOR_BYTES),
        read_ms,
        writes,
        write_bytes: write_sectors.saturating_mul(SECTOR_BYTES),
        write_ms,
        flushes,
        in_flight,
        busy_ms,
        weighted_ms,
    };
    (found >= 11).then_some((name, sample))
}

/// A line of meminfo.
fn memory_info(memory: &mut MemorySample, key: &[u8], bytes: u64) {
    let field = match key {
        b"MemTotal" => &mut memory.total_bytes,
        b"MemFree" => &mut memory.free_bytes,
        b"MemAvailable" => &mut memory.available_bytes,
        b"Shmem" => &mut memory.shmem_bytes,
        b"Dirty" => &mut memory.dirty_bytes,
        b"Writeback" => &mut memory.writeback_bytes,
        b"SwapTotal" => &mut memory.swap_total_bytes,
        b"SwapFree" => &mut memory.swap_free_bytes,
        _ => return,
    };
    *field = bytes;
}

/// A line of vmstat. Of some events there are several, by zone or kind, whose sum is reported.
fn memory_event(memory: &mut MemorySample, key: &[u8], count: u64) {
    let field = match key {
        b"nr_dirty_threshold" => {
            memory.dirty_threshold_bytes = count.saturating_mul(units::page_bytes());
            return;
        }
        b"nr_dirty_background_threshold" => {
            memory.dirty_background_bytes = count.saturating_mul(units::page_bytes());
            return;
        }
        b"pswpin" => &mut memory.swap_in,
        b"pswpout" => &mut memory.swap_out,
        b"pgmajfault" => &mut memory.major_faults,
        b"pgfault" => &mut memory.faults,
        b"pgsteal_direct" | b"pgsteal_kswapd" => &mut memory.reclaimed,
        b"oom_kill" => &mut memory.oom_kills,
        b"compact_stall" => &mut memory.compaction_stalls,
        _ if key.starts_with(b"allocstall") => &mut memory.allocation_stalls,
        // One counter before 5.9, one for file and one for anonymous pages since.
        _ if key.starts_with(b"workingset_refault") => &mut memory.refaults,
        _ => return,
    };
    *field = field.saturating_add(count);
}

fn cpu(line: &[u8], ns_per_tick: u64) -> Option<CpuSample> {
    let mut words = text::words(line);
    // The line of all CPUs has no number.
    let cpu = text::number(words.next()?.strip_prefix(b"cpu")?)? as u32;
    let mut ticks = [0; 8];
    for (slot, word) in ticks.iter_mut().zip(words) {
        *slot = text::number(word)?.saturating_mul(ns_per_tick);
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    Some(CpuSample {
        cpu,
        user_ns: user.saturating_add(nice),
        system_ns: system,
        idle_ns: idle,
        iowait_ns: iowait,
        irq_ns: irq,
        softirq_ns: softirq,
        steal_ns: steal,
    })
}
