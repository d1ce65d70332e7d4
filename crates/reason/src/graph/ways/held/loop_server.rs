//! A disk that is made of a file (a loop device) on a file system that a process serves (FUSE): that process, where it stands still.
//!
//! The kernel's worker that reads the file for the disk waits for its answer, and no request of the disk ends. Must not: take one for it that
//! works or waits for requests: then the disk has what it asked for, or waits before it.

use crate::facts::ThreadRef;
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::ways::way::Way;
use crate::model::object::Object;
use crate::waits::WaitClass::Disk;
use std::path::Path;

/// The way.
pub(super) static WAY: Way = Way {
    name: "server of a disk's file",
    because: "it serves the file that the disk is made of, and stands still",
    of: &[Disk],
    thresholds: &[],
    follow: |at| {
        servers(at.index, &at.wait.object).find_map(|it| at.standing_still(it)).map(Next::Thread)
    },
};

/// Who serves the file system that a disk's file lies on.
fn servers<'w>(index: &'w Index<'w>, disk: &Object) -> impl Iterator<Item = &'w ThreadRef> {
    let disks = &index.model.disk;
    let disk = match disk {
        Object::Disk(Some(dev)) => disks.of(*dev),
        _ => None,
    };
    let file = disk.and_then(|disk| disk.backing_file.as_deref());
    let lies_on = |file: &str| {
        let above = disks.mounts.iter().filter(|mount| Path::new(file).starts_with(&mount.path));
        above.max_by_key(|mount| mount.path.len()).map(|mount| mount.dev)
    };
    let served = file.and_then(lies_on).map(|dev| index.devices.fuse_servers(dev));
    served.into_iter().flatten().map(|end| &end.process)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{endpoint, fact, thread};

    /// Process 10 reads from a disk whose file lies there, while the server is in this state.
    fn reads(backing_file: &str, state: WaitState) -> (&'static str, Option<u32>) {
        let (disk, served) =
            (DeviceNumber { major: 7, minor: 1 }, DeviceNumber { major: 0, minor: 40 });
        let mount = |path: &str, dev| Mount { path: path.into(), dev, ..Mount::default() };
        let backing_file = Some(backing_file.to_string());
        let made = Disk { dev: disk, name: "loop1".into(), backing_file, ..Disk::default() };
        let file = ObjectRef::File(FileRef { dev: disk, ino: 5, ..FileRef::default() });
        let at = Place {
            state: WaitState::DiskSleep,
            iowait: true,
            ..place("read", NO_ARGS, Some(file))
        };
        led(vec![
            fact(Body::Disk(made)),
            fact(Body::Mount(mount("/", DeviceNumber { major: 8, minor: 1 }))),
            fact(Body::Mount(mount("/mnt/far", served))),
            endpoint(20, "bindfs", ObjectRef::FuseServer { dev: served }),
            stands(thread(20, "bindfs"), Place { state, ..place("read", NO_ARGS, None) }),
            stands(of_ten(10), at),
        ])
    }

    #[test]
    fn who_serves_the_file_of_a_disk_and_stands_still_is_it() {
        let stopped = reads("/mnt/far/x.img", WaitState::Stopped);
        assert_eq!(stopped, ("server of a disk's file", Some(20)));
        assert_eq!(reads("/mnt/farther/x.img", WaitState::Stopped), ("", None), "another's");
        assert_eq!(reads("/mnt/far/x.img", WaitState::Idle), ("", None), "it has no request");
    }
}
