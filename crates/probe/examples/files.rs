//! Prints what the readers of files and netlink say about this host, and what each one costs.
//!
//! For developers: `cargo run -p holdup-probe --example files [READER]` prints the facts of one
//! reader as JSON lines, or without a name only counts and milliseconds of all of them. It must not
//! grow into a command: the binary is `holdup`.
#![allow(clippy::print_stdout)]

use holdup_probe::readers::cgroup_samples::samples;
use holdup_probe::readers::containers::containers;
use holdup_probe::readers::locks::LockTable;
use holdup_probe::readers::net_counters::net_counters;
use holdup_probe::readers::netlink::links::links;
use holdup_probe::readers::netlink::qdiscs::qdiscs;
use holdup_probe::readers::netlink::{Netlink, Place};
use holdup_probe::readers::opened::Settings;
use holdup_probe::readers::sampler::Sampler;
use holdup_probe::readers::settings;
use holdup_probe::readers::shared::shared_segments;
use holdup_probe::readers::thread_times::ThreadTimes;
use holdup_probe::readers::threads::threads;
use holdup_probe::readers::waits::unprivileged_waits;
use holdup_probe::system::Roots;
use holdup_probe::system::clock::now;
use holdup_probe::system::namespaces::network_namespaces;
use holdup_reason::facts::Body;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1);
    let roots = Roots::default();
    let print = |name: &str, work: &mut dyn FnMut() -> Vec<Body>| {
        let begin = Instant::now();
        let facts = work();
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        match wanted.as_deref() {
            None => println!("{name:<16} {:>6} facts {ms:>9.3} ms", facts.len()),
            Some(reader) if reader == name => {
                for fact in &facts {
                    println!("{}", serde_json::to_string(fact).unwrap_or_default());
                }
            }
            Some(_) => {}
        }
    };
    let Settings { facts, mut cgroups, .. } = settings::read(&roots);
    print("opening", &mut || settings::read(&roots).facts);
    print("cgroup-samples", &mut || samples(&mut cgroups).collect());
    print("cgroup-samples-2", &mut || samples(&mut cgroups).collect());
    print("cgroup-rescan", &mut || cgroups.rescan());
    let mut sampler = Sampler::new(&roots);
    print("sample", &mut || sampler.sample());
    print("sample-2", &mut || sampler.sample());
    print("threads", &mut || threads(&roots));
    let (mut times, _) = ThreadTimes::begin(&roots, now());
    print("observe", &mut || {
        times.observe();
        Vec::new()
    });
    print("thread-times", &mut || times.end(now()));
    let mut stacks: Vec<Vec<String>> = Vec::new();
    let now_ns = now();
    print("waits", &mut || {
        unprivileged_waits(&roots, now_ns, &mut |frames| {
            stacks.push(frames.to_vec());
            stacks.len() as u32
        })
    });
    print("locks", &mut || LockTable::default().read(&roots));
    print("shared", &mut || shared_segments(&roots));
    let namespaces = network_namespaces(&roots);
    print("net-counters", &mut || net_counters(&roots, &namespaces));
    let (mut netlink, blind) = Netlink::open(&roots)?;
    print("netlink", &mut || blind.clone());
    let all_links = |place: &mut Place, buffer: &mut Vec<u8>| {
        Ok(links(place, buffer)?.into_iter().map(Body::Link).collect())
    };
    print("links", &mut || netlink.ask(all_links));
    for (name, filters) in [("qdiscs", true), ("qdisc-samples", false)] {
        let all = move |place: &mut Place, buffer: &mut Vec<u8>| {
            Ok(qdiscs(place, buffer, filters)?.into_iter().map(Body::QdiscSample).collect())
        };
        print(name, &mut || netlink.ask(all));
    }
    print("containers", &mut || {
        let mut all = facts.clone();
        all.extend(threads(&roots));
        let found = containers(&roots, &all);
        found.into_iter().map(Body::Container).collect()
    });
    Ok(())
}
