//! Messages as a kernel sends them, and damaged ones.
//!
//! The bytes are put together here from the layouts of the uapi headers, so that the tests need
//! neither root nor a network namespace; what a live kernel sends is seen by `examples/files.rs`.

use super::filters::filter;
use super::links::link;
use super::neighbours::*;
use super::qdiscs::{percent, qdisc};
use super::routes::*;
use super::*;
use crate::system::Roots;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(index: u32, handle: u32, parent: u32, info: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for value in [index, handle, parent, info] {
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(attributes.concat());
    bytes
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// `tbf rate 5mbit burst 1600 limit 190500`.
fn tbf_message() -> Vec<u8> {
    tbf_message_of([0, 0, 625_000, 0, 0, 0, 190_500, 40_000, 0])
}

fn tbf_message_of(parms: [u32; 9]) -> Vec<u8> {
    let parms = numbers(&parms);
    let basic = [(7u64).to_ne_bytes().to_vec(), numbers(&[3, 0])].concat();
    let queue = numbers(&[126, 190_000, 41, 5, 99]);
    let stats = [attribute(1, &basic), attribute(3, &queue)].concat();
    message(
        4,
        0x8001_0000,
        u32::MAX,
        2,
        &[attribute(1, b"tbf\0"), attribute(2, &attribute(1, &parms)), attribute(7, &stats)],
    )
}

#[test]
fn a_tbf() {
    let tbf = qdisc(&tbf_message(), false).unwrap();
    assert_eq!((&*tbf.kind, &*tbf.handle, &*tbf.parent), ("tbf", "8001:", "root"));
    assert_eq!((tbf.rate_bytes, tbf.limit), (Some(625_000), Some(190_500)));
    assert_eq!(tbf.burst_bytes, Some(1600));
    assert_eq!((tbf.bytes, tbf.packets), (7, 3));
    assert_eq!((tbf.backlog_packets, tbf.backlog_bytes), (126, 190_000));
    assert_eq!((tbf.drops, tbf.overlimits, tbf.index), (41, 99, 4));
}

#[test]
fn a_tbf_that_can_not_be_set_again_by_its_words_has_no_burst() {
    let burst = |parms| qdisc(&tbf_message_of(parms), false).unwrap().burst_bytes;
    // struct tc_ratespec: cell_log, linklayer, overhead; cell_align, mpu; rate.
    let set = |overhead: u32, least: u32, peak: u32| {
        burst([overhead << 16, least << 16, 625_000, 0, 0, peak, 190_500, 40_000, 0])
    };
    assert_eq!(set(0, 0, 0), Some(1600));
    assert_eq!([set(24, 0, 0), set(0, 64, 0), set(0, 0, 1_250_000)], [None; 3]);
}

#[test]
fn an_htb_class_with_a_wide_ceiling() {
    let parms = numbers(&[0, 0, 125_000, 0, 0, u32::MAX, 10, 20, 0, 0, 0]);
    let wide = attribute(7, &5_000_000_000u64.to_ne_bytes());
    let options = [attribute(1, &parms), wide].concat();
    let bytes =
        message(2, 0x1_0020, 0x1_0001, 0, &[attribute(1, b"htb\0"), attribute(2, &options)]);
    let class = qdisc(&bytes, true).unwrap();
    assert_eq!((&*class.handle, &*class.parent), ("1:20", "1:1"));
    assert_eq!(class.assured_rate_bytes, Some(125_000));
    assert_eq!(class.rate_bytes, Some(5_000_000_000));
}

#[test]
fn an_htb_class_says_what_a_change_would_forget() {
    let parms = numbers(&[0, 0, 625_000, 0, 0, 625_000, 40_000, 80_000, 3_000, 0, 5]);
    let attributes = [attribute(1, b"htb\0"), attribute(2, &attribute(1, &parms))];
    let class = qdisc(&message(2, 0x1_0020, 0x1_0001, 0, &attributes), true).unwrap();
    assert_eq!(class.class_words, "burst 1600b cburst 3200b quantum 3000 prio 5");
}

/// `netem limit 1000 ...` as struct tc_netem_qopt, with the attributes that the kernel always tells.
fn netem_message(qopt: [u32; 6], more: &[Vec<u8>]) -> Vec<u8> {
    let always = [attribute(6, &numbers(&[0, 0, 0, 0])), attribute(3, &numbers(&[1 << 30, 0]))];
    let options = [numbers(&qopt), always.concat(), more.concat()].concat();
    message(4, 0x8001_0000, u32::MAX, 2, &[attribute(1, b"netem\0"), attribute(2, &options)])
}

#[test]
fn a_netem_that_delays() {
    let wide = |kind, ns: u64| attribute(kind, &ns.to_ne_bytes());
    let exact = [wide(10, 100_000_010), wide(11, 10_000_000)];
    let one_percent = 42_949_673;
    let reported = netem_message([1_562_500, 1000, one_percent, 0, 0, 156_250], &exact);
    let sample = qdisc(&reported, false).unwrap();
    assert_eq!((sample.limit, sample.rate_bytes), (Some(1000), None), "a rate of zero is none");
    let netem = sample.netem.unwrap();
    assert_eq!((netem.delay_ns, netem.jitter_ns), (100_000_010, 10_000_000));
    assert_eq!(netem.other.as_deref(), Some("loss 1%"));
    // A kernel before 4.15 tells ticks alone.
    let old = qdisc(&netem_message([1_562_500, 1000, 0, 0, 0, 0], &[]), false).unwrap();
    let old = old.netem.unwrap();
    assert_eq!((old.delay_ns, old.jitter_ns, old.other.as_deref()), (100_000_000, 0, Some("")));
}

#[test]
fn what_netem_would_forget_is_kept_in_the_words_of_tc() {
    let reported = |qopt, more: &[Vec<u8>]| qdisc(&netem_message(qopt, more), false).unwrap().netem;
    let reorders = reported([1000, 1000, 0, 5, 1 << 31, 0], &[]).unwrap();
    assert_eq!(reorders.other.as_deref(), Some("duplicate 50%"));
    assert_eq!(reorders.reorder, "reorder 25% 0% gap 5");
    // A loss model (gemodel) has no place in these words.
    let model =
        reported([1000, 1000, 0, 0, 0, 0], &[attribute(5, &attribute(2, &[0; 16]))]).unwrap();
    assert_eq!(model.other, None);
}

#[test]
fn shares_are_reported_so_that_tc_reads_the_same_back() {
    for share in [0, 1, 42_949_673, 1 << 30, u32::MAX / 3, u32::MAX - 1, u32::MAX] {
        let text = percent(share);
        let read: f64 = text.trim_end_matches('%').parse().unwrap();
        assert_eq!((read / 100.0 * f64::from(u32::MAX)).round() as u32, share, "{text}");
    }
    assert_eq!((percent(42_949_673), percent(1 << 30)), ("1%".into(), "25%".into()));
}

#[test]
fn filters_steer() {
    let key = [&[0, 0, 0xff, 0xff][..], &[0, 0, 0, 80], &20i32.to_ne_bytes(), &[0; 4]].concat();
    let selector = [&[1, 0, 1, 0][..], &[0; 12], &key].concat();
    let options = [attribute(1, &numbers(&[0x1_0020])), attribute(5, &selector)].concat();
    let info = 7 << 16 | u32::from(0x0800u16.to_be());
    let u32_filter = [attribute(1, b"u32\0"), attribute(2, &options)];
    let found = filter(&message(2, 0, 0x1_0000, info, &u32_filter)).unwrap();
    assert_eq!(found.class.as_deref(), Some("1:20"));
    assert_eq!(found.text, "protocol ip pref 7 u32 match 00000050/0000ffff at 20 classid 1:20");
    let options = [
        attribute(1, &numbers(&[0x1_0010])),
        attribute(9, &[17]),
        attribute(12, &[10, 0, 0, 0]),
        attribute(13, &[255, 0, 0, 0]),
        attribute(21, &53u16.to_be_bytes()),
    ]
    .concat();
    let flower = [attribute(1, b"flower\0"), attribute(2, &options)];
    let found = filter(&message(2, 0, 0x1_0000, info, &flower)).unwrap();
    let text = "protocol ip pref 7 flower ip_proto 17 dst_ip 10.0.0.0/8 dst_port 53 classid 1:10";
    assert_eq!(found.text, text);
}

#[test]
fn a_link_with_a_short_table() {
    let mut bytes = vec![0; 16];
    bytes[4..8].copy_from_slice(&9u32.to_ne_bytes());
    let stats: Vec<u8> = (1..=4u64).flat_map(u64::to_ne_bytes).collect();
    bytes.extend(attribute(3, b"ve\x1bth0\0"));
    bytes.extend(attribute(4, &numbers(&[1500])));
    bytes.extend(attribute(13, &numbers(&[1000])));
    bytes.extend(attribute(18 | 0x8000, &attribute(1, b"veth\0")));
    bytes.extend(attribute(23, &stats));
    let link = link(&bytes).unwrap();
    assert_eq!((link.index, &*link.name, &*link.kind), (9, "ve\x1bth0", "veth"));
    assert_eq!((link.mtu, link.queue_length), (1500, 1000));
    assert_eq!((link.counters.len(), link.counters["tx_bytes"]), (4, 4));
}

/// A route to an address over interface 3.
fn route_message(kind: u8, more: &[Vec<u8>]) -> Vec<u8> {
    let head = vec![2, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
    [head, attribute(4, &numbers(&[3])), more.concat()].concat()
}

/// An entry whose state is 70 ms old.
fn neighbour_message(state: u16) -> Vec<u8> {
    let head = [&[2, 0, 0, 0, 3, 0, 0, 0][..], &state.to_ne_bytes(), &[0, 1]].concat();
    [head, attribute(1, &[10, 0, 0, 9]), attribute(3, &numbers(&[100, 30, 7, 1]))].concat()
}

#[test]
fn the_way_to_an_address() {
    let on_link = route(&route_message(1, &[])).unwrap();
    assert_eq!(on_link, Route { index: 3, gateway: None, path_mtu_bytes: None });
    let gateway = |reported: Vec<u8>| route(&reported).unwrap().gateway.unwrap().to_string();
    assert_eq!(gateway(route_message(1, &[attribute(5, &[10, 0, 0, 1])])), "10.0.0.1");
    let via = [&10u16.to_ne_bytes()[..], &[0; 15], &[1]].concat();
    assert_eq!(gateway(route_message(1, &[attribute(18, &via)])), "::1");
    assert_eq!(route(&route_message(2, &[])), None, "an address of its own");
}

#[test]
fn what_a_router_said_of_a_way_is_not_what_is_set_there() {
    let learnt = |flags: u32, expires: u32| {
        let more = [
            attribute(8, &attribute(2, &numbers(&[1_400]))),
            attribute(12, &numbers(&[0, 0, expires, 0])),
        ];
        let mut message = route_message(1, &more);
        message[8..12].copy_from_slice(&flags.to_ne_bytes());
        route(&message).unwrap().path_mtu_bytes
    };
    assert_eq!(learnt(0x200, 59_000), Some(1_400));
    assert_eq!(learnt(0x200, 0), None, "it is set, or was forgotten");
    assert_eq!(learnt(0, 59_000), None, "it was announced with the route");
}

#[test]
fn why_nothing_is_sent_to_an_address() {
    use holdup_reason::facts::NoRoute;
    let answers = [1, 2, 6, 7, 8].map(|kind| refusal(&route_message(kind, &[])));
    let [black_hole, unreachable, prohibit] =
        [NoRoute::Blackhole, NoRoute::Unreachable, NoRoute::Prohibit].map(Some);
    assert_eq!(answers, [None, None, black_hole, unreachable, prohibit]);
    let refused = |code| refused(&std::io::Error::from_raw_os_error(code));
    let errors = [libc::EINVAL, libc::EHOSTUNREACH, libc::EACCES].map(refused);
    assert_eq!(errors, [black_hole, unreachable, prohibit]);
    assert_eq!(refused(libc::ENETUNREACH), Some(NoRoute::None));
    assert_eq!(refused(libc::EPERM), None, "it was not asked");
}

#[test]
fn a_neighbour_entry() {
    let failed = neighbour(&neighbour_message(0x20)).unwrap();
    assert_eq!(failed, Neighbour { state: 0x20, updated_ns: 70_000_000, hardware: String::new() });
}

#[test]
fn a_question_names_one_address() {
    let to = |text: &str| text.parse().unwrap();
    let asked = route_request(to("10.0.0.9"), to("10.0.0.1"));
    assert_eq!(asked[..3], [2, 32, 32]);
    assert_eq!(asked[12..], [attribute(1, &[10, 0, 0, 9]), attribute(2, &[10, 0, 0, 1])].concat());
    let asked = route_request(to("fd00::9"), to("::"));
    assert_eq!((&asked[..3], asked.len()), (&[10, 128, 0][..], 32), "from wherever");
    let asked = route_request_by(to("10.0.0.9"), to("::"), 3);
    assert_eq!(
        asked[12..],
        [attribute(1, &[10, 0, 0, 9]), attribute(4, &3_u32.to_ne_bytes())].concat()
    );
    let asked = neighbour_request(to("10.0.0.9"), 3);
    assert_eq!(asked[12..], attribute(1, &[10, 0, 0, 9]));
}

#[test]
fn damage_is_survived() {
    for whole in [route_message(1, &[attribute(5, &[10, 0, 0, 1])]), neighbour_message(1)] {
        for cut in 0..whole.len() {
            let _ = (route(&whole[..cut]), refusal(&whole[..cut]));
            let _ = neighbour(&whole[..cut]);
        }
    }
    let whole = tbf_message();
    for cut in 0..whole.len() {
        let _ = qdisc(&whole[..cut], false);
        let _ = filter(&whole[..cut]);
        let _ = link(&whole[..cut]);
        let mut bent = whole.clone();
        bent[cut] ^= 0xff;
        let _ = qdisc(&bent, true);
        let _ = filter(&bent);
    }
}

#[test]
fn the_own_namespace_has_a_loopback() {
    let (mut netlink, _) = Netlink::open(&Roots::default()).unwrap();
    let ask = |place: &mut Place, buffer: &mut Vec<u8>| {
        Ok(links::links(place, buffer)?.into_iter().map(Body::Link).collect())
    };
    let links = netlink.ask(ask);
    let lo = links.iter().find_map(|body| match body {
        Body::Link(link) if link.name == "lo" => Some(link),
        _ => None,
    });
    let lo = lo.unwrap();
    assert!(lo.index > 0 && lo.netns > 0 && lo.counters.contains_key("tx_bytes"));
}

#[test]
fn namespaces_from_mounts_and_processes() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");
    let found = namespaces(&Roots::under(fixtures.as_ref()));
    let named: Vec<(u32, &str)> = found.iter().map(|n| (n.netns, &*n.name)).collect();
    let expected = [(4_026_531_840, ""), (4_026_532_300, "blue"), (4_026_532_400, "0a1b2c")];
    assert_eq!(named, expected);
}
