//! Counters of the whole host: of disks ten times a second, because what is in flight is only seen at the
//! moment; of CPUs, memory and pressure, which are totals or move slowly, twice, and once while disks stand still.
//!
//! The descriptors stay open and are read again from the start: the kernel makes the text anew on
//! each read at offset 0. A file that cannot be read is told once as blind and not tried again.

use super::{Roots, host, text};
use crate::standstill::{READ_AGAIN_TICKS, Standstill};
use holdup_reason::facts::{Body, CpuSample, DeviceNumber, DiskSample, MemorySample, Pressure};
use procfs_core::{DiskStat, DiskStats, FromRead, Meminfo, ProcResult, VmStat};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const SECTOR_BYTES: u64 = 512;

/// Reads all counters of the host; keep it for the length of a look.
pub struct Sampler {
    block: PathBuf,
    diskstats: Kept,
    stat: Kept,
    meminfo: Kept,
    vmstat: Kept,
    pressure: [Kept; 3],
    /// Whether a name is a whole disk, as far as it was asked.
    whole: HashMap<String, bool>,
    /// Disks that have moved at some time.
    moved: HashMap<DeviceNumber, bool>,
    ns_per_tick: u64,
    buffer: Vec<u8>,
    standstill: Standstill,
    /// Since all counters were read.
    ticks: u32,
}

/// Ticks between two readings of all counters, unless disks stand still.
const ALL_TICKS: u32 = 5;

/// A file that is held open.
struct Kept {
    file: Option<File>,
    blind: Option<Body>,
}

impl Kept {
    fn open(path: PathBuf, what: &str, therefore: &str) -> Self {
        match File::open(path) {
            Ok(file) => Self { file: Some(file), blind: None },
            Err(error) => {
                // PSI that is compiled in and switched off refuses to open.
                let mut blind = super::blind(what, &error, therefore);
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

    fn parse<T: FromRead>(&self, buffer: &mut Vec<u8>) -> Option<T> {
        let parsed: ProcResult<T> = T::from_read(self.read(buffer)?);
        parsed.ok()
    }
}

impl Sampler {
    /// Opens the files.
    pub fn new(roots: &Roots) -> Self {
        let open = |name: &str, therefore: &str| {
            let what = format!("proc.{}", name.replace('/', "."));
            Kept::open(roots.proc.join(name), &what, therefore)
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
            ns_per_tick: 1_000_000_000 / host::ticks_per_second(),
            buffer: Vec::new(),
            standstill: Standstill::default(),
            ticks: 0,
        }
    }

    /// What is due at a tick; `queued` says whether a bio was since the one before, if that is known.
    pub fn tick(&mut self, queued: Option<bool>) -> Vec<Body> {
        self.ticks += 1;
        let still = self.standstill.tick(queued);
        let due = if still.is_some() { READ_AGAIN_TICKS } else { ALL_TICKS };
        if self.ticks >= due {
            return self.sample();
        }
        still.unwrap_or_else(|| self.disks())
    }

    /// One reading of all counters; the first one also tells what cannot be read.
    pub fn sample(&mut self) -> Vec<Body> {
        self.ticks = 0;
        let mut facts = Vec::new();
        let [cpu, io, memory] = &mut self.pressure;
        for kept in [&mut self.diskstats, &mut self.stat, &mut self.meminfo, &mut self.vmstat]
            .into_iter()
            .chain([cpu, io, memory])
        {
            facts.extend(kept.blind.take());
        }
        facts.extend(self.disks());
        self.cpus(&mut facts);
        facts.extend(self.memory().map(Body::MemorySample));
        facts.extend(self.pressure().map(Body::Pressure));
        facts
    }

    fn disks(&mut self) -> Vec<Body> {
        let mut facts = Vec::new();
        let Some(stats) = self.diskstats.parse::<DiskStats>(&mut self.buffer) else { return facts };
        for disk in stats.0 {
            let block = &self.block;
            let whole = self.whole.entry(disk.name.clone()).or_insert_with(|| {
                std::fs::symlink_metadata(block.join(disk.name.replace('/', "!"))).is_ok()
            });
            if !*whole {
                continue;
            }
            let sample = disk_sample(&disk);
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
        let info = self.meminfo.parse::<Meminfo>(&mut self.buffer)?;
        let vmstat = self.vmstat.parse::<VmStat>(&mut self.buffer).map(|stat| stat.0);
        let event = |name: &str| {
            let value = vmstat.as_ref().and_then(|stat| stat.get(name).copied());
            value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
        };
        let sum = |prefix: &str| {
            let all = vmstat.iter().flatten().filter(|(name, _)| name.starts_with(prefix));
            all.map(|(_, value)| u64::try_from(*value).unwrap_or(0)).fold(0, u64::saturating_add)
        };
        let page = host::page_bytes();
        Some(MemorySample {
            total_bytes: info.mem_total,
            free_bytes: info.mem_free,
            available_bytes: info.mem_available.unwrap_or(0),
            shmem_bytes: info.shmem.unwrap_or(0),
            dirty_bytes: info.dirty,
            writeback_bytes: info.writeback,
            dirty_threshold_bytes: event("nr_dirty_threshold").saturating_mul(page),
            dirty_background_bytes: event("nr_dirty_background_threshold").saturating_mul(page),
            swap_total_bytes: info.swap_total,
            swap_free_bytes: info.swap_free,
            swap_in: event("pswpin"),
            swap_out: event("pswpout"),
            major_faults: event("pgmajfault"),
            faults: event("pgfault"),
            reclaimed: event("pgsteal_direct").saturating_add(event("pgsteal_kswapd")),
            allocation_stalls: sum("allocstall"),
            // One counter before 5.9, one for file and one for anonymous pages since.
            refaults: sum("workingset_refault"),
            oom_kills: event("oom_kill"),
        })
    }

    fn pressure(&mut self) -> Option<Pressure> {
        let [cpu, io, memory] = &self.pressure;
        let [cpu, io, memory] = [cpu, io, memory].map(|kept| {
            let bytes = kept.read(&mut self.buffer)?;
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

/// The total of a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=111`. Before 5.13 the
/// CPU has no `full` line, which procfs_core's parser does not accept.
fn stall_us(bytes: &[u8], word: &str) -> Option<u64> {
    let line = text::lines(bytes).find(|line| line.starts_with(word.as_bytes()))?;
    text::words(line).find_map(|word| text::number(word.strip_prefix(b"total=")?))
}

fn disk_sample(disk: &DiskStat) -> DiskSample {
    DiskSample {
        dev: DeviceNumber { major: disk.major as u32, minor: disk.minor as u32 },
        reads: disk.reads,
        read_bytes: disk.sectors_read.saturating_mul(SECTOR_BYTES),
        read_ms: disk.time_reading,
        writes: disk.writes,
        write_bytes: disk.sectors_written.saturating_mul(SECTOR_BYTES),
        write_ms: disk.time_writing,
        flushes: disk.flushes.unwrap_or(0),
        in_flight: disk.in_progress,
        busy_ms: disk.time_in_progress,
        weighted_ms: disk.weighted_time_in_progress,
    }
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
