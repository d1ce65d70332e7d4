//! Which cgroups a thread is in: one question, one answer, for v1 and v2.
//!
//! A thread has one place in each hierarchy: v2 has one for all controllers (its list of controllers is empty), v1 one a
//! controller. It is in that group and in all above it. Must not: read settings or counters. Rejected: each measure with a
//! test of its own; they differed in the root, which holds everybody.

use crate::facts::{Cgroup, Membership, Thread};

/// Whether a cgroup path is a group's own or lies below it; everything lies below the root.
pub fn is_below(path: &str, group: &str) -> bool {
    let rest = path.strip_prefix(group.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is a container's or lies below it. The root is no container: a look inside one sees its own group so.
pub fn is_inside(path: &str, container: &str) -> bool {
    container != "/" && is_below(path, container)
}

/// A thread's place in the hierarchy of a controller: v1's own, else the unified one.
pub fn place<'a>(thread: &'a Thread, controller: &str) -> Option<&'a Membership> {
    let controls = |own: &&Membership| own.controllers.iter().any(|name| name == controller);
    let unified = || thread.cgroups.iter().find(|own| own.controllers.is_empty());
    thread.cgroups.iter().find(controls).or_else(unified)
}

/// Whether a thread is in a group of any of these controllers, or below it. Of a v2 group the controllers are not asked:
/// it has them all.
pub fn belongs(thread: &Thread, group: &Cgroup, controllers: &[&str]) -> bool {
    let has = |own: &[String]| own.iter().any(|name| controllers.contains(&name.as_str()));
    let is_unified = group.controllers.is_empty();
    (is_unified || has(&group.controllers))
        && thread.cgroups.iter().any(|own| {
            let is_same =
                if is_unified { own.controllers.is_empty() } else { has(&own.controllers) };
            is_same && is_below(&own.path, &group.path)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(path: &str, controllers: &[&str]) -> Membership {
        let controllers = controllers.iter().map(|name| name.to_string()).collect();
        Membership { path: path.into(), controllers }
    }

    fn group(path: &str, controllers: &[&str]) -> Cgroup {
        let of = membership(path, controllers);
        Cgroup { path: of.path, controllers: of.controllers, ..Cgroup::default() }
    }

    #[test]
    fn below_is_by_whole_names_and_the_root_holds_all() {
        assert!(is_below("/a/b", "/a") && is_below("/a", "/a") && is_below("/a", "/"));
        assert!(!is_below("/ab", "/a") && !is_below("/a", "/a/b"));
    }

    #[test]
    fn the_hierarchy_decides_where_both_kinds_are_mounted() {
        let cgroups = vec![membership("/mem/x", &["memory"]), membership("/unified", &[])];
        let thread = Thread { cgroups, ..Thread::default() };
        assert!(belongs(&thread, &group("/mem", &["memory"]), &["memory"]));
        assert!(!belongs(&thread, &group("/mem", &["cpu", "cpuacct"]), &["cpu"]));
        assert!(!belongs(&thread, &group("/mem", &[]), &["memory"]));
        assert!(belongs(&thread, &group("/unified", &[]), &["memory"]));
        let path = |controller| place(&thread, controller).map(|own| own.path.as_str());
        assert_eq!((path("memory"), path("cpu")), (Some("/mem/x"), Some("/unified")));
    }
}
