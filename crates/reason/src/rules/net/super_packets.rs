//! Packets longer than the link's frames in a queue: segments that TCP leaves joined until the driver (TSO) or the last moment (GSO).
//!
//! Two witnesses: the driver's features are on, and what stands in the queue is longer a packet than the interface's MTU. On a slow rate
//! each of them holds whoever comes next for as long as it takes. Must not: say that a queue stands.

use crate::measure::packet_queue::Queue;
use crate::model::{Model, words};
use crate::rules::action::Action;
use crate::rules::net::standing_queue::TARGET;
use crate::rules::net::ways_out::command_in;
use crate::rules::wording::{Evidence, Remedy};
use crate::threshold::Threshold;

/// What the headers of a link add to its MTU.
pub(super) static FRAME_HEADERS: Threshold = Threshold::new(
    18.0,
    "bytes",
    "bytes by which a frame may be longer than the MTU: what is longer still is joined segments",
    "IEEE 802.3: 14 of Ethernet, 4 of a VLAN tag",
);

/// The features by their kernel names, and what they are called. ethtool takes the kernel names too: `tso` is a group of them, and
/// whoever turns the group on again turns on what was off in it.
const FEATURES: [(&str, &str); 3] = [
    ("tx-tcp-segmentation", "TSO"),
    ("tx-tcp6-segmentation", "TSO"),
    ("tx-generic-segmentation", "GSO"),
];

/// Joined segments that stand in a queue.
pub(super) struct SuperPackets {
    bytes: f64,
    seconds: f64,
    netns: u32,
    interface: String,
    on: Vec<(&'static str, &'static str)>,
}

/// Those of a queue that sends so many bytes a second; none if its packets are frames, or each leaves within CoDel's target.
pub(super) fn super_packets(model: &Model, queue: &Queue<'_>, rate: f64) -> Option<SuperPackets> {
    let (netns, index) = queue.interface();
    let settings = model.net.settings.get(&(netns, index))?;
    let link = model.net.links.iter().rfind(|it| (it.netns, it.index) == (netns, index))?;
    let is_on = |(feature, _): &&(&str, &str)| settings.features.get(*feature) == Some(&true);
    let on: Vec<_> = FEATURES.iter().filter(is_on).copied().collect();
    // In a queue of frames and of joined segments both are meant: their mean is enough.
    let bytes = queue.bytes / queue.packets.max(1.0);
    let seconds = bytes / rate.max(1.0);
    let is_long = link.mtu > 0 && bytes > f64::from(link.mtu) + FRAME_HEADERS.value;
    let interface = queue.last.interface.clone();
    (!on.is_empty() && is_long && seconds > TARGET.value).then_some(SuperPackets {
        bytes,
        seconds,
        netns,
        interface,
        on,
    })
}

impl SuperPackets {
    /// What they do, as a sentence.
    pub(super) fn text(&self) -> String {
        let mut names: Vec<&str> = self.on.iter().map(|(_, name)| *name).collect();
        names.dedup();
        format!(
            " Its packets are of {} each, as segments leave joined ({}): one alone takes {}.",
            words::bytes(self.bytes),
            names.join(", "),
            words::seconds(self.seconds)
        )
    }

    /// How it was seen.
    pub(super) fn evidence(&self) -> Evidence {
        let source = "rtnetlink backlog; ethtool: features";
        Evidence::new("mean packet in the queue", self.bytes, "bytes", source)
    }

    /// Segments of a frame each.
    pub(super) fn remedy(&self, model: &Model) -> Remedy {
        let ethtool = command_in(model, self.netns, "ethtool");
        let set = |state: &str| {
            let each = self.on.iter().map(|(feature, _)| format!("{feature} {state}"));
            let each: Vec<String> = each.collect();
            format!("-K {} {}", words::shell(&self.interface), each.join(" "))
        };
        let (off, on) = (set("off"), set("on"));
        let action = Action::ethtool(self.netns, &self.interface, &off, &on);
        let action = action.through(ethtool.through.as_ref());
        let text = "send frame by frame, so that others come in between; it costs more CPU a byte";
        Remedy::to(text).set(action, format!("{ethtool} {off}"), format!("{ethtool} {on}"))
    }
}
