//! Queues: arrivals, departures, length and service of a disk over the window.
//!
//! Counters that were sampled ten times a second give rate, mean number in flight and mean time; the three are
//! independent readings (completions, the integral of requests in flight, the sum of request times), so Little's
//! law L = lambda W is a check on them, not an identity: a queue whose residual is above 5 % is unmeasured.
//! Steadiness of the rate is judged over slices that each hold several completions, so that a slow device is
//! not called unsteady for being slow.
//!
//! Must not: name causes.

use crate::facts::*;
use crate::model::Model;
use crate::model::kernel_threads::is_worker;
use crate::threshold::Threshold;

/// A residual of Little's law above this marks a queue as unmeasured.
pub const LITTLE_RESIDUAL_MAX: f64 = 0.05;

/// A disk as a queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskQueue {
    /// Completions a second.
    pub per_second: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean number in flight.
    pub in_flight: f64,
    /// Mean time of a request as the block layer counts it, seconds.
    pub seconds: f64,
    /// Share of time with at least one in flight.
    pub busy: f64,
    /// Relative disagreement of length with rate times time; none if nothing completed.
    pub little_residual: Option<f64>,
    /// Coefficient of variation of the rate over slices; none with too few completions.
    pub rate_variation: Option<f64>,
    /// The same for bytes.
    pub bytes_variation: Option<f64>,
    /// Completions.
    pub completed: u64,
    /// Requests in flight at the last sample.
    pub in_flight_last: u64,
}

/// Time inside a device by request events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    /// Requests.
    pub count: u64,
    /// Mean, seconds.
    pub mean: f64,
    /// Median, seconds (upper edge of its power-of-two slot).
    pub median: f64,
    /// 99th percentile, seconds (upper edge of its slot).
    pub p99: f64,
    /// Greatest, seconds.
    pub max: f64,
    /// Mean time before the device, seconds.
    pub queued_mean: f64,
    /// Ended in an error.
    pub errors: u64,
    /// Requests by log2 of their microseconds, as the facts tell them.
    pub slots: Vec<u64>,
    /// Requests, flushes included.
    pub all: u64,
    /// Their time inside the device, seconds.
    pub all_seconds: f64,
}

impl Service {
    /// What the `count` longest requests took together, at most.
    pub fn longest_seconds(&self, count: u64) -> f64 {
        let (mut left, mut sum) = (count, 0.0);
        for (slot, requests) in self.slots.iter().enumerate().rev() {
            let taken = left.min(*requests);
            sum += taken as f64 * upper_edge(slot).min(self.max);
            left -= taken;
        }
        // More than were seen: events were lost.
        sum + left as f64 * self.max
    }
}

/// A sample is of the window up to so far from it.
static NEAR_MAX: Threshold = Threshold::new(
    150.0,
    "ms",
    "from an edge of the window to a sample: the first and the last are taken just outside of it",
    "chosen: one and a half of the time between two samples",
);
/// Of a loop device.
static PART_OF_BUSY_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "time that kernel workers stood ready without a CPU, for each second in which the device had requests",
    "chosen",
);
/// Of a loop device too.
static PART_OF_WINDOW_MIN: Threshold = Threshold::new(
    0.05,
    "1",
    "the same for each second of the window: below it they wait so on any host",
    "chosen",
);

/// Its samples of the window.
fn within(model: &Model, dev: DeviceNumber) -> Vec<&(Ns, DiskSample)> {
    let series = model.disk.samples.get(&dev).map_or(&[][..], Vec::as_slice);
    let is_within = |at: Ns| {
        at + NEAR_MAX.ns() >= model.look.begin_ns && at <= model.look.end_ns + NEAR_MAX.ns()
    };
    series.iter().filter(|(at, _)| is_within(*at)).collect()
}

/// What a disk did a second of what a limit of this kind counts, in one direction.
pub fn rate_of(model: &Model, dev: DeviceNumber, kind: &str) -> f64 {
    let window = within(model, dev);
    let (Some(first), Some(last)) = (window.first(), window.last()) else { return 0.0 };
    let of = |sample: &DiskSample| match kind {
        "read_iops" => sample.reads,
        "write_iops" => sample.writes + sample.flushes,
        "read_bps" => sample.read_bytes,
        _ => sample.write_bytes,
    };
    let seconds = last.0.saturating_sub(first.0) as f64 / 1e9;
    of(&last.1).saturating_sub(of(&first.1)) as f64 / seconds.max(1e-9)
}

/// Measures a disk over the window.
pub fn disk(model: &Model, dev: DeviceNumber) -> Option<DiskQueue> {
    let window = within(model, dev);
    let (first, last) = (window.first()?, window.last()?);
    let seconds = last.0.saturating_sub(first.0) as f64 / 1e9;
    if seconds <= 0.0 {
        return None;
    }
    let operations = |s: &DiskSample| s.reads + s.writes + s.flushes;
    let bytes = |s: &DiskSample| s.read_bytes + s.write_bytes;
    let completed = operations(&last.1).saturating_sub(operations(&first.1));
    let time_ms =
        (last.1.read_ms + last.1.write_ms).saturating_sub(first.1.read_ms + first.1.write_ms);
    let data_requests =
        (last.1.reads + last.1.writes).saturating_sub(first.1.reads + first.1.writes);
    let per_second = completed as f64 / seconds;
    let in_flight = last.1.weighted_ms.saturating_sub(first.1.weighted_ms) as f64 / 1e3 / seconds;
    let mean = if data_requests > 0 { time_ms as f64 / 1e3 / data_requests as f64 } else { 0.0 };
    let expected = data_requests as f64 / seconds * mean;
    let counters: Vec<(Ns, u64, u64)> =
        window.iter().map(|(at, s)| (*at, operations(s), bytes(s))).collect();
    Some(DiskQueue {
        per_second,
        bytes_per_second: bytes(&last.1).saturating_sub(bytes(&first.1)) as f64 / seconds,
        in_flight,
        seconds: mean,
        busy: (last.1.busy_ms.saturating_sub(first.1.busy_ms) as f64 / 1e3 / seconds).min(1.0),
        little_residual: (expected > 0.0 && in_flight > 0.0)
            .then(|| (in_flight - expected).abs() / in_flight),
        rate_variation: variation(&counters, completed, |c| c.1),
        bytes_variation: variation(&counters, completed, |c| c.2),
        completed,
        in_flight_last: last.1.in_flight,
    })
}

/// The best rate that a disk showed between two samples, bytes a second.
pub fn best_bytes_per_second(model: &Model, dev: DeviceNumber) -> f64 {
    let Some(series) = model.disk.samples.get(&dev) else { return 0.0 };
    let bytes = |s: &DiskSample| s.read_bytes + s.write_bytes;
    series
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| {
            let seconds = (pair[1].0 - pair[0].0) as f64 / 1e9;
            bytes(&pair[1].1).saturating_sub(bytes(&pair[0].1)) as f64 / seconds
        })
        .fold(0.0, f64::max)
}

/// Spread of a counter's rate over slices of the window that hold at least five completions each.
fn variation(
    counters: &[(Ns, u64, u64)],
    completed: u64,
    of: impl Fn(&(Ns, u64, u64)) -> u64,
) -> Option<f64> {
    const PER_SLICE: u64 = 5;
    const SLICES_MIN: u64 = 4;
    const SLICES_MAX: u64 = 20;
    let slices = (completed / PER_SLICE).min(counters.len() as u64 / 2).min(SLICES_MAX);
    if slices < SLICES_MIN {
        return None;
    }
    let (begin, end) = (counters.first()?.0, counters.last()?.0);
    let mut rates = Vec::new();
    let mut from = 0;
    for slice in 1..=slices {
        let until = begin + (end - begin) / slices * slice;
        let to = counters.iter().rposition(|c| c.0 <= until).unwrap_or(0);
        if to > from {
            let seconds = (counters[to].0 - counters[from].0) as f64 / 1e9;
            rates.push((of(&counters[to]) - of(&counters[from])) as f64 / seconds);
            from = to;
        }
    }
    spread(&rates)
}

/// Coefficient of variation.
pub fn spread(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance =
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Time inside a device over the window; without flushes but for the two sums of everything.
pub fn service(model: &Model, dev: DeviceNumber) -> Option<Service> {
    let mut sum = Service::default();
    let mut slots: Vec<u64> = Vec::new();
    let (mut service_ns, mut queued_ns) = (0u64, 0u64);
    for latency in model.disk.latency.iter().filter(|l| l.dev == dev) {
        sum.errors += latency.errors;
        sum.all += latency.count;
        sum.all_seconds += latency.service_ns as f64 / 1e9;
        if latency.operation == DiskOperation::Flush {
            continue;
        }
        sum.count += latency.count;
        service_ns += latency.service_ns;
        queued_ns += latency.queued_ns;
        sum.max = sum.max.max(latency.service_ns_max as f64 / 1e9);
        if slots.len() < latency.service_us_log2.len() {
            slots.resize(latency.service_us_log2.len(), 0);
        }
        for (slot, count) in latency.service_us_log2.iter().enumerate() {
            slots[slot] += count;
        }
    }
    if sum.count == 0 {
        return None;
    }
    sum.mean = service_ns as f64 / 1e9 / sum.count as f64;
    sum.queued_mean = queued_ns as f64 / 1e9 / sum.count as f64;
    sum.median = quantile(&slots, 0.5).min(sum.max);
    sum.p99 = quantile(&slots, 0.99).min(sum.max);
    sum.slots = slots;
    Some(sum)
}

/// Upper edge, in seconds, of the power-of-two microsecond slot that holds a quantile.
pub fn quantile(slots: &[u64], q: f64) -> f64 {
    let total: u64 = slots.iter().sum();
    let mut seen = 0;
    for (slot, count) in slots.iter().enumerate() {
        seen += count;
        if seen as f64 >= q * total as f64 {
            return upper_edge(slot);
        }
    }
    0.0
}

/// Seconds.
fn upper_edge(slot: usize) -> f64 {
    2f64.powi(slot as i32 + 1) / 1e6
}

/// A loop device is served by kernel workers of this host: where they stand ready without a CPU for half of the time
/// in which it has requests, it is slow for want of a CPU, and says nothing about a disk. Their seconds of standing
/// ready; none if that is not so.
///
/// Which worker serves which device is not known, so all of them count: below a part of the window that is what they
/// wait on any host, and half of the little time of a device that has hardly anything to do.
pub fn worker_ready_seconds(model: &Model, device: &Disk) -> Option<f64> {
    device.backing_file.as_ref()?;
    let is_worker = |time: &&ThreadTime| time.kernel && is_worker(&time.thread);
    let ready_ns: u64 =
        model.threads.times.iter().filter(is_worker).map(|time| time.runnable_ns).sum();
    let ready = ready_ns as f64 / 1e9;
    let busy = disk(model, device.dev)?.busy * model.look.seconds();
    let is_long = ready > 0.0 && ready >= PART_OF_WINDOW_MIN.value * model.look.seconds();
    (is_long && ready >= PART_OF_BUSY_MIN.value * busy).then_some(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(samples: impl Iterator<Item = (Ns, DiskSample)>) -> Model {
        let mut model = Model::default();
        model.look.end_ns = 5_000_000_000;
        model.disk.samples.insert(DeviceNumber::default(), samples.collect());
        model
    }

    #[test]
    fn a_steady_disk_obeys_littles_law_and_is_reported_steady() {
        // 50 requests a second of 40 ms each: two in flight all the time.
        let model = model((0..=50).map(|tenth| {
            let sample = DiskSample {
                writes: tenth * 5,
                write_bytes: tenth * 5 * 4096,
                write_ms: tenth * 5 * 40,
                busy_ms: tenth * 100,
                weighted_ms: tenth * 200,
                ..DiskSample::default()
            };
            (tenth * 100_000_000, sample)
        }));
        let queue = disk(&model, DeviceNumber::default()).expect("measured");
        assert!((queue.per_second - 50.0).abs() < 0.1 && (queue.in_flight - 2.0).abs() < 0.01);
        assert!(queue.little_residual.expect("length and time") < 0.01);
        assert!(queue.rate_variation.expect("enough completions") < 0.01);
    }

    #[test]
    fn few_completions_have_no_variation() {
        let model = model((0..=50).map(|tenth| {
            (tenth * 100_000_000, DiskSample { writes: tenth / 10, ..DiskSample::default() })
        }));
        let queue = disk(&model, DeviceNumber::default()).expect("measured");
        assert_eq!(queue.rate_variation, None);
    }

    #[test]
    fn a_loop_device_with_little_to_do_is_no_victim_of_what_workers_wait_on_any_host() {
        // Busy for 0.1 s of 5.
        let mut model = model((0..=50).map(|tenth| {
            (tenth * 100_000_000, DiskSample { busy_ms: tenth * 2, ..DiskSample::default() })
        }));
        let device = Disk { backing_file: Some("/srv/image".into()), ..Disk::default() };
        for (ready_ms, reported) in [(80, None), (300, Some(0.3))] {
            let comm = "kworker/u8:3".into();
            model.threads.times = vec![ThreadTime {
                thread: ThreadRef { comm, ..ThreadRef::default() },
                kernel: true,
                runnable_ns: ready_ms * 1_000_000,
                ..ThreadTime::default()
            }];
            assert_eq!(worker_ready_seconds(&model, &device), reported);
        }
    }

    #[test]
    fn the_longest_requests_take_no_more_than_their_slots_and_the_greatest_of_all() {
        let service = Service { slots: vec![0, 5, 0, 2], max: 10e-6, ..Service::default() };
        assert!((service.longest_seconds(1) - 10e-6).abs() < 1e-12);
        assert!((service.longest_seconds(4) - (2.0 * 10e-6 + 2.0 * 4e-6)).abs() < 1e-12);
        assert!((service.longest_seconds(8) - (3.0 * 10e-6 + 5.0 * 4e-6)).abs() < 1e-12);
    }

    #[test]
    fn quantiles_are_the_upper_edge_of_their_slot() {
        assert_eq!(quantile(&[0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 1], 0.5), 8e-6);
        assert_eq!(quantile(&[0, 0, 9, 0, 1], 0.99), 32e-6);
    }
}
