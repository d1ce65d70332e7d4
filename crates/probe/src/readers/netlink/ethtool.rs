//! How the driver of an interface is set: rings, queues, coalescing, features, speed and pause, as ethtool(8) shows them; asked of the
//! family `ethtool` (Documentation/networking/ethtool-netlink.rst, include/uapi/linux/ethtool_netlink.h; Linux 5.6 and newer).
//!
//! Read once, as the look ends, and only of interfaces on whose way somebody waits (waited.rs): each question takes the rtnl lock, and
//! a driver may ask its hardware under it. What a driver does not say is left out. Any bytes may come in; fuzzed.
//!
//! Must not: change anything, or judge a setting. Not read: a driver's own counters (`ethtool -S`): one reading of a counter is no evidence, a second
//! one would have every driver asked as each look begins, and what the rules need of them is in IFLA_STATS64 (links.rs).

use super::Place;
use super::attributes::*;
use super::generic::Family;
use super::links::links;
use crate::SourceError;
use crate::readers::look::Look;
use crate::readers::reader::{Opening, Reader};
use crate::system::clock::now;
use holdup_reason::facts::{Body, Channels, Coalescing, Fact, LinkSettings, Pause, Rings};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const LINK_MODES: u8 = 4;
const FEATURES: u8 = 11;
const RINGS: u8 = 15;
const CHANNELS: u8 = 17;
const COALESCE: u8 = 19;
const PAUSE: u8 = 21;

/// Features whose state says something of waiting, by their kernel names (net/ethtool/common.c).
const FEATURE_NAMES: [&str; 6] = [
    "rx-gro",
    "rx-lro",
    "rx-checksum",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
];

/// See the head of the file.
pub(crate) struct Drivers;

impl Reader for Drivers {
    fn open(_: &mut Look, _: &mut Opening) -> Result<Self, SourceError> {
        Ok(Self)
    }

    fn close(&mut self, look: &mut Look, facts: &mut Vec<Fact>) -> Result<(), SourceError> {
        let wanted = look.waited.interfaces.take();
        let Some(netlink) = look.netlink.as_mut() else { return Ok(()) };
        let at_ns = now();
        let read = netlink.ask_about(wanted, settings);
        facts.extend(read.into_iter().map(|body| Fact { at_ns, body }));
        Ok(())
    }
}

fn settings(place: &mut Place, buffer: &mut Vec<u8>, here: &[u32]) -> io::Result<Vec<Body>> {
    // An older kernel has no such family: nothing is known of its drivers.
    let Some(family) = Family::open(place, "ethtool", buffer)? else { return Ok(Vec::new()) };
    if here.iter().any(|index| !place.interfaces.contains_key(index)) {
        links(place, buffer)?;
    }
    let mut found = Vec::new();
    for index in here.iter().copied() {
        let mut settings = of_interface(&family, index, buffer)?;
        if settings == LinkSettings::default() {
            continue;
        }
        (settings.netns, settings.index) = (place.namespace.netns, index);
        if let Some(interface) = place.interfaces.get(&index) {
            settings.interface.clone_from(&interface.name);
        }
        found.push(Body::LinkSettings(settings));
    }
    Ok(found)
}

/// All that a driver says, without whose it is.
fn of_interface(family: &Family, index: u32, buffer: &mut Vec<u8>) -> io::Result<LinkSettings> {
    const DEVICE_INDEX: u16 = 1;
    /// The header is the first attribute of every message.
    const IN_HEADER: u16 = 1 | NESTED;
    let (mut header, mut request) = (Vec::new(), Vec::new());
    put_attribute(&mut header, DEVICE_INDEX, &index.to_ne_bytes());
    put_attribute(&mut request, IN_HEADER, &header);
    let mut settings = LinkSettings::default();
    for command in [LINK_MODES, FEATURES, RINGS, CHANNELS, COALESCE, PAUSE] {
        let answer = family.ask(command, &request, buffer, |answer| Some(read(command, answer)));
        match answer {
            Ok(answer) => merge(&mut settings, answer.unwrap_or_default()),
            Err(error) if is_unsaid(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(settings)
}

/// A driver's refusal of one question, whatever its reason, says nothing of the others; a socket that fails does.
fn is_unsaid(error: &io::Error) -> bool {
    const OF_SOCKET: [i32; 5] =
        [libc::EAGAIN, libc::EINTR, libc::ENOBUFS, libc::EBADF, libc::ENOTCONN];
    error.raw_os_error().is_some_and(|code| !OF_SOCKET.contains(&code))
}

/// Each answer has its own part.
fn merge(all: &mut LinkSettings, answer: LinkSettings) {
    all.rings = all.rings.or(answer.rings);
    all.channels = all.channels.or(answer.channels);
    all.coalescing = all.coalescing.or(answer.coalescing);
    all.features.extend(answer.features);
    all.speed_mbit = all.speed_mbit.or(answer.speed_mbit);
    all.full_duplex = all.full_duplex.or(answer.full_duplex);
    all.pause = all.pause.or(answer.pause);
}

/// The attributes of an answer to one of the questions, in the fields that they are about.
pub(crate) fn read(command: u8, answer: &[u8]) -> LinkSettings {
    let found = attributes(answer);
    let number = |kind: u16| found.get(&kind).and_then(|value| u32_at(value, 0));
    let byte = |kind: u16| found.get(&kind).and_then(|value| value.first().copied());
    let mut settings = LinkSettings::default();
    match command {
        LINK_MODES => {
            const UNKNOWN: u32 = u32::MAX;
            settings.speed_mbit = number(5).filter(|speed| !matches!(*speed, 0 | UNKNOWN));
            settings.full_duplex = byte(6).filter(|duplex| *duplex <= 1).map(|duplex| duplex == 1);
        }
        FEATURES => settings.features = found.get(&4).map(|it| features(it)).unwrap_or_default(),
        RINGS => {
            let rings = Rings {
                rx: number(6).unwrap_or(0),
                rx_max: number(2).unwrap_or(0),
                tx: number(9).unwrap_or(0),
                tx_max: number(5).unwrap_or(0),
            };
            settings.rings = (rings != Rings::default()).then_some(rings);
        }
        CHANNELS => {
            let channels = Channels {
                rx: number(6).unwrap_or(0),
                rx_max: number(2).unwrap_or(0),
                tx: number(7).unwrap_or(0),
                tx_max: number(3).unwrap_or(0),
                combined: number(9).unwrap_or(0),
                combined_max: number(5).unwrap_or(0),
            };
            settings.channels = (channels != Channels::default()).then_some(channels);
        }
        COALESCE => {
            let coalescing = Coalescing {
                rx_us: number(2),
                rx_frames: number(3),
                tx_us: number(6),
                tx_frames: number(7),
                adaptive_rx: byte(11).map(|on| on != 0),
            };
            settings.coalescing = (coalescing != Coalescing::default()).then_some(coalescing);
        }
        PAUSE => {
            let (rx, tx) = (byte(3), byte(4));
            settings.pause = rx.or(tx).map(|_| Pause { rx: rx == Some(1), tx: tx == Some(1) });
        }
        _ => {}
    }
    settings
}

/// Of a list of bits with names, in which those that are set stand: each of [`FEATURE_NAMES`], on or off.
fn features(set: &[u8]) -> BTreeMap<String, bool> {
    const BITS: u16 = 3;
    const NAME: u16 = 2;
    let Some(bits) = attributes(set).remove(&BITS) else { return BTreeMap::new() };
    let on: BTreeSet<String> = attribute_list(bits)
        .into_iter()
        .filter_map(|(_, bit)| Some(string(attributes(bit).get(&NAME)?)))
        .collect();
    FEATURE_NAMES.iter().map(|name| ((*name).to_string(), on.contains(*name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::netlink::{Netlink, links::links};
    use crate::system::Roots;

    fn numbers(pairs: &[(u16, u32)]) -> Vec<u8> {
        let mut message = Vec::new();
        put_attribute(&mut message, 1 | NESTED, &[]);
        for (kind, number) in pairs {
            put_attribute(&mut message, *kind, &number.to_ne_bytes());
        }
        message
    }

    #[test]
    fn rings_and_queues_are_read_with_their_most() {
        let rings = read(RINGS, &numbers(&[(2, 4_096), (5, 4_096), (6, 256), (9, 512)])).rings;
        assert_eq!(rings, Some(Rings { rx: 256, rx_max: 4_096, tx: 512, tx_max: 4_096 }));
        let channels = read(CHANNELS, &numbers(&[(5, 8), (9, 2)])).channels.unwrap();
        assert_eq!((channels.combined, channels.combined_max, channels.rx), (2, 8, 0));
        let coalescing = read(COALESCE, &numbers(&[(2, 50), (11, 1)])).coalescing.unwrap();
        assert_eq!((coalescing.rx_us, coalescing.rx_frames), (Some(50), None));
        assert_eq!(coalescing.adaptive_rx, Some(true));
    }

    #[test]
    fn what_is_not_said_is_absent() {
        for command in [LINK_MODES, FEATURES, RINGS, CHANNELS, COALESCE, PAUSE, 0] {
            assert_eq!(read(command, &[]), LinkSettings::default(), "{command}");
            assert_eq!(read(command, &[9, 0, 2]), LinkSettings::default(), "{command}");
        }
        let modes =
            |speed: u32, duplex: u32| read(LINK_MODES, &numbers(&[(5, speed), (6, duplex)]));
        assert_eq!(modes(u32::MAX, 255), LinkSettings::default());
        assert_eq!(
            (modes(1_000, 1).speed_mbit, modes(1_000, 0).full_duplex),
            (Some(1_000), Some(false))
        );
    }

    #[test]
    fn a_feature_is_on_if_its_name_stands_in_the_list() {
        let bit = |name: &[u8]| {
            let mut bit = Vec::new();
            put_attribute(&mut bit, 1, &7_u32.to_ne_bytes());
            put_attribute(&mut bit, 2, name);
            bit
        };
        let (mut bits, mut set, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        put_attribute(&mut bits, 1 | NESTED, &bit(b"rx-gro\0"));
        put_attribute(&mut bits, 1 | NESTED, &bit(b"netns-local\0"));
        put_attribute(&mut set, 1, &[]);
        put_attribute(&mut set, 3 | NESTED, &bits);
        put_attribute(&mut answer, 4 | NESTED, &set);
        let features = read(FEATURES, &answer).features;
        assert_eq!((features["rx-gro"], features["tx-tcp-segmentation"]), (true, false));
        assert_eq!(features.len(), FEATURE_NAMES.len());
    }

    #[test]
    fn this_kernel_answers_for_its_loopback() {
        let Ok((mut netlink, _)) = Netlink::open(&Roots::default()) else { return };
        let read = netlink.ask(|place, buffer| {
            links(place, buffer)?;
            let lo =
                place.interfaces.iter().find(|(_, it)| it.name == "lo").map(|(index, _)| *index);
            let wanted: Vec<u32> = lo.into_iter().collect();
            settings(place, buffer, &wanted)
        });
        let of_loopback = read.iter().find_map(|body| match body {
            Body::LinkSettings(it) if it.interface == "lo" => Some(it),
            _ => None,
        });
        // A kernel without the family says nothing, and is no failure.
        assert!(of_loopback.is_none_or(|it| it.features.contains_key("rx-gro")), "{read:?}");
    }
}
