//! What the kernel hands over, as properties on the stable compiler: records of the programs, rtnetlink, device mapper,
//! lines of its log.
//!
//! Random bytes are no attributes and no offsets, so inputs are well-formed answers with foreign values, and the same
//! damaged: cut, flipped. What libFuzzer once found stands here as a test of its own.
//!
//! Edit together: `src/lib.rs`, `fuzz_targets/`; the layouts are those of the probe's `wire.h`, files of netlink, and
//! `mapper.rs`.

use holdup_fuzz::{kernel_log, kernel_record, mapper_answers, netlink_message};
use proptest::collection::vec;
use proptest::prelude::*;

/// A byte as fields hold them: mostly none or few, now and then anything.
fn byte() -> impl Strategy<Value = u8> {
    any::<u16>().prop_map(|it| match (it % 7, (it >> 8) as u8) {
        (0..=2, _) => 0,
        (3 | 4, few) => few % 16,
        (5, _) => 0xff,
        (_, any) => any,
    })
}

/// Bytes with some overwritten, and a part of their end cut away.
fn damaged(good: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let flips = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (good, flips, prop_oneof![2 => Just(0), 1 => 0_usize..200]).prop_map(
        |(mut bytes, flips, cut)| {
            for (at, byte) in flips {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            bytes
        },
    )
}

/// Lines as the kernel writes them of kills, hung tasks, disks and links, with a name that somebody chose.
fn log() -> impl Strategy<Value = Vec<u8>> {
    const TEXTS: [&str; 10] = [
        "~ invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "memory: usage 65536kB, limit 65536kB, failcnt 9",
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        "[   9001]     0  9001    17000    16000   180224        3             0 ~",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/~,task_memcg=/~,task=~,pid=9001,uid=0",
        "Memory cgroup out of memory: Killed process 9001 (~) total-vm:68000kB, anon-rss:64000kB",
        "INFO: task ~:9001 blocked for more than 120 seconds.",
        "I/O error, dev ~, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "~[9001]: segfault at 0 ip 0000 sp 0000 error 4 in ~[5555+1000]",
        "~: Link is Down",
    ];
    let name = prop_oneof![
        "[a-z0-9]{1,15}",
        ".{0,15}",
        Just("a) b]: (x".to_string()),
        Just(" invoked oom-killer: ".to_string()),
    ];
    let line = (0_u8..16, any::<u64>(), prop::sample::select(&TEXTS[..]), name).prop_map(
        |(priority, at_us, text, name)| {
            format!("{priority},1,{at_us},-;{}\n", text.replace('~', &name)).into_bytes()
        },
    );
    vec(line, 0..40).prop_map(|lines| lines.join(&0))
}

/// A record of each kind and way, of any length: a kind, a time, and fields.
fn record() -> impl Strategy<Value = Vec<u8>> {
    (0_u8..3, 0_u32..15, any::<u64>(), vec(byte(), 0..1_200)).prop_map(
        |(way, kind, at_ns, fields)| {
            let mut record = vec![way];
            record.extend(kind.to_ne_bytes());
            record.extend((fields.len() as u32).to_ne_bytes());
            record.extend(at_ns.to_ne_bytes());
            record.extend(fields);
            record
        },
    )
}

/// An attribute: its length and kind before its value, filled up to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Attributes in no order, with values of any length.
fn attributes() -> impl Strategy<Value = Vec<u8>> {
    vec((0_u16..24, vec(byte(), 0..48)), 0..8)
        .prop_map(|all| all.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect())
}

/// A message of traffic control: its header, a kind that is known, options and statistics.
fn traffic_control() -> impl Strategy<Value = Vec<u8>> {
    let kinds = [
        "tbf", "htb", "hfsc", "netem", "cake", "pfifo", "sfq", "fq", "fq_codel", "u32", "flower",
        "fw", "bpf",
    ];
    let options = (vec(byte(), 0..64), attributes());
    (vec(byte(), 20), prop::sample::select(kinds.to_vec()), options, attributes()).prop_map(
        |(mut message, kind, (mut plain, nested), statistics)| {
            plain.extend(nested);
            message.extend(attribute(1, kind.as_bytes()));
            message.extend(attribute(2, &plain));
            message.extend(attribute(7, &statistics));
            message
        },
    )
}

/// The message of an interface: sixteen bytes of header, and attributes.
fn interface() -> impl Strategy<Value = Vec<u8>> {
    (vec(byte(), 16), "[a-z]{0,20}", attributes()).prop_map(|(mut message, name, more)| {
        message.extend(attribute(3, name.as_bytes()));
        message.extend(more);
        message
    })
}

/// The text of a cache's target: of either format, with numbers that need not fit.
fn text() -> impl Strategy<Value = String> {
    let number = || prop_oneof![0_u64..9, any::<u64>()];
    prop_oneof![
        (vec(number(), 10), 0_usize..4, "[a-z_ 0-9]{0,30}").prop_map(|(all, features, rest)| {
            let counts: Vec<String> = all[3..].iter().map(u64::to_string).collect();
            let (sectors, used, blocks) = (all[0], all[1], all[2]);
            format!("8 27/64 {sectors} {used}/{blocks} {} {features} {rest}", counts.join(" "))
        }),
        [number(), number(), number(), number()].prop_map(|[reads, writes, hits, gone]| {
            format!("stats: reads({reads}), writes({writes}), cache hits({hits}, 0.3),replacement({gone})")
        }),
        [number(), number()].prop_map(|[size, block]| {
            format!("conf: capacity({size}M), associativity(16), block size({block}K), write-back")
        }),
        Just("252:2 252:1 252:0 64 1 writethrough smq 0".into()),
        "[ -~]{0,60}",
    ]
}

/// One answer of the device mapper: a header that says where the targets begin and how many there are.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    const HEADER: usize = 312;
    (
        prop_oneof![3 => Just(HEADER as u32), 1 => any::<u32>()],
        0_u32..4,
        vec((prop::bool::weighted(0.8), text()), 1..3),
    )
        .prop_map(|(start, count, targets)| {
            let mut answer = vec![0; HEADER];
            answer[16..20].copy_from_slice(&start.to_ne_bytes());
            answer[20..24].copy_from_slice(&count.to_ne_bytes());
            for (is_cache, text) in targets {
                let mut spec = vec![0; 40];
                let kind: &[u8] = if is_cache { b"cache" } else { b"linear" };
                spec[24..24 + kind.len()].copy_from_slice(kind);
                spec.extend(text.as_bytes());
                spec.push(0);
                let next = (answer.len() - HEADER + spec.len()) as u32;
                spec[20..24].copy_from_slice(&next.to_ne_bytes());
                answer.extend(spec);
            }
            answer
        })
}

/// The two about one disk, as the target takes them.
fn both(answers: [BoxedStrategy<Vec<u8>>; 2]) -> impl Strategy<Value = Vec<u8>> {
    answers.prop_map(|[table, status]| {
        let mut both = (table.len() as u16).to_le_bytes().to_vec();
        both.extend(table);
        both.extend(status);
        both
    })
}

proptest! {
    #[test]
    fn any_record_is_reported_or_counted(record in record()) {
        kernel_record(&record);
    }

    #[test]
    fn any_bytes_of_the_kernel_are_read_or_passed_over(bytes in vec(any::<u8>(), 0..512)) {
        kernel_record(&bytes);
        netlink_message(&bytes);
        mapper_answers(&bytes);
    }

    #[test]
    fn a_message_with_any_attributes_is_read_or_passed_over(
        message in damaged(prop_oneof![traffic_control(), interface()]),
    ) {
        netlink_message(&message);
    }

    #[test]
    fn any_answer_about_a_cache_is_read_or_unknown(answers in both([damaged(answer()).boxed(), damaged(answer()).boxed()])) {
        mapper_answers(&answers);
    }

    #[test]
    fn any_lines_of_the_log_are_kept_or_counted(lines in damaged(log())) {
        kernel_log(&lines);
    }
}

/// The strategies do reach what they are for: else these tests would hold for readers that read nothing.
#[test]
fn well_formed_answers_are_read() {
    use holdup_probe::readers::mapper;
    use holdup_probe::readers::netlink::{filters, links, qdiscs};
    use holdup_reason::facts::DeviceNumber;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut read = |message: BoxedStrategy<Vec<u8>>, is_read: &dyn Fn(&[u8]) -> bool| {
        let mut one = || message.new_tree(&mut runner).is_ok_and(|tree| is_read(&tree.current()));
        (0..400).filter(|_| one()).count()
    };
    let qdiscs = read(traffic_control().boxed(), &|it| qdiscs::qdisc(it, true).is_some());
    let filters = read(traffic_control().boxed(), &|it| filters::filter(it).is_some());
    let links = read(interface().boxed(), &|it| links::link(it).is_some());
    let caches = read(both([answer().boxed(), answer().boxed()]).boxed(), &|it| {
        let (table, status) = it[2..].split_at(usize::from(u16::from_le_bytes([it[0], it[1]])));
        mapper::cache_sample(DeviceNumber::default(), table, status).is_some()
    });
    assert!(
        qdiscs > 300 && filters > 100 && links > 300 && caches > 10,
        "{qdiscs} {filters} {links} {caches}"
    );
}
