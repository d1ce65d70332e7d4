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

/// The features, by their kernel names, and by those that ethtool takes.
const FEATURES: [(&str, &str); 2] =
    [("tx-tcp-segmentation", "tso"), ("tx-generic-segmentation", "gso")];

/// Joined segments that stand in a queue.
pub(super) struct SuperPackets {
    bytes: f64,
    seconds: f64,
    netns: u32,
    interface: String,
    on: Vec<&'static str>,
}

/// Those of a queue that sends so many bytes a second; none if its packets are frames, or each leaves within CoDel's target.
pub(super) fn super_packets(model: &Model, queue: &Queue<'_>, rate: f64) -> Option<SuperPackets> {
    let (netns, index) = queue.interface();
    let settings = model.net.settings.get(&(netns, index))?;
    let link = model.net.links.iter().rfind(|it| (it.netns, it.index) == (netns, index))?;
    let on: Vec<&str> = FEATURES
        .iter()
        .filter(|(feature, _)| settings.features.get(*feature) == Some(&true))
        .map(|(_, name)| *name)
        .collect();
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
        let names: Vec<String> = self.on.iter().map(|name| name.to_uppercase()).collect();
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
            let each: Vec<String> = self.on.iter().map(|name| format!("{name} {state}")).collect();
            format!("-K {} {}", words::shell(&self.interface), each.join(" "))
        };
        let (off, on) = (set("off"), set("on"));
        let action = Action::ethtool(self.netns, &self.interface, &off, &on);
        let action = action.through(ethtool.through.as_ref());
        let text = "send frame by frame, so that others come in between; it costs more CPU a byte";
        Remedy::to(text).set(action, format!("{ethtool} {off}"), format!("{ethtool} {on}"))
    }
}
