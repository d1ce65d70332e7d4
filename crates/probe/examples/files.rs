//! Prints what the readers of files and netlink tell about this host, and what each one costs.
//!
//! For developers: `cargo run -p holdup-probe --example files [READER]` prints the facts of one
//! reader as JSON lines, or without a name only counts and milliseconds of all of them. It must not
//! grow into a command: the binary is `holdup`.
#![allow(clippy::print_stdout)]

use holdup_probe::files::{self, Roots, Sampler, ThreadTimes};
use holdup_probe::netlink::Netlink;
use holdup_reason::facts::Body;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1);
    let roots = Roots::default();
    let tell = |name: &str, work: &mut dyn FnMut() -> Vec<Body>| {
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
    let files::Opening { facts, mut cgroups } = files::opening(&roots);
    tell("opening", &mut || files::opening(&roots).facts);
    tell("cgroup-samples", &mut || cgroups.samples().collect());
    tell("cgroup-samples-2", &mut || cgroups.samples().collect());
    tell("cgroup-rescan", &mut || cgroups.rescan());
    let mut sampler = Sampler::new(&roots);
    tell("sample", &mut || sampler.sample());
    tell("sample-2", &mut || sampler.sample());
    tell("threads", &mut || files::threads(&roots));
    let (mut times, _) = ThreadTimes::begin(&roots, files::threads::clock_ns(1));
    tell("observe", &mut || {
        times.observe();
        Vec::new()
    });
    tell("thread-times", &mut || times.end(files::threads::clock_ns(1)));
    let mut stacks: Vec<Vec<String>> = Vec::new();
    let now_ns = files::threads::clock_ns(1);
    tell("waits", &mut || {
        files::unprivileged_waits(&roots, now_ns, &mut |frames| {
            stacks.push(frames.to_vec());
            stacks.len() as u32
        })
    });
    tell("locks", &mut || files::LockTable::default().read(&roots));
    tell("shared", &mut || files::shared_segments(&roots));
    let namespaces = files::network_namespaces(&roots);
    tell("net-counters", &mut || files::net_counters(&roots, &namespaces));
    let (mut netlink, blind) = Netlink::open(&roots)?;
    tell("netlink", &mut || blind.clone());
    tell("links", &mut || netlink.links());
    tell("qdiscs", &mut || netlink.qdiscs());
    tell("qdisc-samples", &mut || netlink.qdisc_samples(None, true));
    tell("containers", &mut || {
        let mut all = facts.clone();
        all.extend(files::threads(&roots));
        let found = holdup_probe::container::containers(&roots, &all);
        found.into_iter().map(Body::Container).collect()
    });
    Ok(())
}
