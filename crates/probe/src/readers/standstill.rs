//! Counters that cannot have moved since they were read: reported again each tick, and not read again.
//!
//! What is in flight is only seen at the moment, so it is reported ten times a second; on a host that does little,
//! reading it would be most of what a look costs. The kernel programs see each bio and each packet before it is
//! queued. If none came since a reading that found nothing waiting, nothing waits still, and whoever counts samples
//! gets as many as ever; of disks the reading is true to the byte, of qdiscs the packets that found them empty and
//! were sent at once are missing until the next. Pure: it is given readings and whether something was queued.
//!
//! Must not: guess. Where no program watches, or something waited, all is read each tick; and after some ticks, which
//! are the same for all, in any case, for what moves a counter without being queued. Rejected: reading more seldom
//! while nothing changes (samples would stand thicker where something waits, and their mean with them).
//!
//! Edit together: sampler.rs, queues.rs (who reads), kernel/ (who knows what was queued), session/quiet_host.rs (ticks in
//! which nobody is awake).

use holdup_reason::facts::Body;

/// One kind of counters: those of disks, or of queueing disciplines.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    last: Vec<Body>,
    /// The last reading found nothing waiting.
    rests: bool,
    /// Ticks in a row in which nothing was queued.
    quiet: u32,
}

impl Standstill {
    /// At each tick, whether something was queued since the one before: the last reading, if it is still true and need
    /// not be made `again` in any case.
    pub(super) fn tick(&mut self, queued: Option<bool>, again: bool) -> Option<Vec<Body>> {
        self.quiet = if queued == Some(false) { self.quiet + 1 } else { 0 };
        (self.is_still() && !again).then(|| self.last.clone())
    }

    /// At a tick in which nobody was awake, because it is quiet.
    pub(super) fn slept(&mut self) -> Vec<Body> {
        self.tick(Some(false), false).unwrap_or_default()
    }

    /// Whether the last reading found nothing waiting, and nothing was queued since.
    pub(super) fn is_still(&self) -> bool {
        // The reading must be from a quiet tick itself: it may have come between a packet's sight and its queueing.
        self.quiet >= 2 && self.rests
    }

    /// A reading was made.
    pub(super) fn read(&mut self, reported: &[Body]) {
        self.rests = reported.iter().all(rests);
        self.last.clear();
        if self.rests {
            self.last.extend_from_slice(reported);
        }
    }
}

fn rests(body: &Body) -> bool {
    match body {
        Body::DiskSample(sample) => sample.in_flight == 0,
        Body::QdiscSample(sample) => sample.backlog_packets == 0 && sample.backlog_bytes == 0,
        // What could not be read is asked for again.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_reason::facts::{DiskSample, Lost, QdiscSample};

    fn disk(reads: u64, in_flight: u64) -> Vec<Body> {
        vec![Body::DiskSample(DiskSample { reads, in_flight, ..DiskSample::default() })]
    }

    /// Ticks in which a reading was needed, of those reported whether something was queued.
    fn readings(reading: &[Body], queued: &[Option<bool>]) -> Vec<usize> {
        let mut still = Standstill::default();
        let mut read = Vec::new();
        for (tick, queued) in queued.iter().enumerate() {
            match still.tick(*queued, tick > 0 && tick % 10 == 0) {
                Some(reported) => assert_eq!(reported, reading),
                None => {
                    read.push(tick);
                    still.read(reading);
                }
            }
        }
        read
    }

    #[test]
    fn what_rests_is_read_twice_and_then_reported_until_it_is_old() {
        let none = [Some(false); 24];
        assert_eq!(readings(&disk(7, 0), &none), [0, 10, 20]);
        assert_eq!(readings(&[], &none), [0, 10, 20], "no disk has moved");
    }

    #[test]
    fn what_was_queued_is_looked_for_in_its_tick_and_the_next() {
        let mut queued = [Some(false); 9];
        queued[4] = Some(true);
        assert_eq!(readings(&disk(7, 0), &queued), [0, 4, 5]);
    }

    #[test]
    fn ticks_that_were_slept_through_are_reported_as_if_somebody_had_been_awake() {
        let reading = disk(7, 0);
        let mut still = Standstill::default();
        assert_eq!(still.tick(Some(false), false), None);
        still.read(&reading);
        assert!(!still.is_still());
        assert_eq!(still.tick(Some(false), false), Some(reading.clone()));
        for _ in 0..8 {
            assert!(still.is_still());
            assert_eq!(still.slept(), reading);
        }
        assert_eq!(still.tick(Some(false), true), None, "it is read again in time");
        still.read(&reading);
        assert_eq!(still.slept(), reading);
        assert_eq!(
            still.tick(Some(true), false),
            None,
            "what called is looked for at the next tick"
        );
    }

    #[test]
    fn what_waits_or_is_not_watched_is_read_each_tick() {
        let all: Vec<usize> = (0..9).collect();
        assert_eq!(readings(&disk(7, 1), &[Some(false); 9]), all);
        assert_eq!(readings(&disk(7, 0), &[None; 9]), all);
        let backlog = QdiscSample { backlog_bytes: 1, ..QdiscSample::default() };
        assert_eq!(readings(&[Body::QdiscSample(backlog)], &[Some(false); 9]), all);
        let other = Body::Lost(Lost { source: "netlink".into(), count: 1 });
        assert_eq!(readings(&[other], &[Some(false); 9]), all);
    }
}
