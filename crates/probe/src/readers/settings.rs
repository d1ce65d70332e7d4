//! What changes seldom: the host, its mounts, disks, cgroups and kernel settings, read once as a look begins.
//!
//! x
//! x

use super::cgroups::Cgroups;
use super::{disks, host};
use crate::system::{Roots, mounts, root_helps};
use holdup_reason::facts::{Blind, Body, Mount};

/// What the files say when a look begins.
#[derive(Debug)]
pub struct Opening {
    /// Host, mounts, disks, cgroup settings, sysctls, and what could not be read.
    pub facts: Vec<Body>,
    /// The cgroups that were found; gives their samples.
    pub cgroups: Cgroups,
}

/// Reads everything that changes seldom.
pub fn opening(roots: &Roots) -> Opening {
    let mut facts = vec![Body::Host(host::host(roots))];
    let mounts = mounts::mounts(roots).unwrap_or_else(|blind| {
        facts.push(Body::Blind(blind));
        Vec::new()
    });
    facts.extend(hidden(roots));
    facts.extend(disks::disks(roots, &mounts));
    facts.extend(mounts.into_iter().map(Body::Mount));
    let (cgroups, settings) = Cgroups::scan(roots);
    facts.extend(settings);
    facts.extend(host::sysctls(roots).into_iter().map(Body::Sysctl));
    Opening { facts, cgroups }
}

/// /proc may be mounted so that it shows nobody else's processes.
fn hidden(roots: &Roots) -> Option<Body> {
    let hides = |mount: &Mount| {
        let option = mount.options.split(',').find_map(|option| option.strip_prefix("hidepid="));
        mount.path == "/proc" && option.is_some_and(|how| !matches!(how, "0" | "off"))
    };
    let hides = !root_helps().is_empty() && mounts::own_mounts(roots).iter().any(hides);
    hides.then(|| {
        Body::Blind(Blind {
            what: "proc.hidepid".into(),
            why: "/proc is mounted with hidepid".into(),
            remedy: root_helps().into(),
            therefore: "processes of others are not seen at all".into(),
            ..Blind::default()
        })
    })
}
