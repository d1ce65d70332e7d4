//! A file system that a process serves (FUSE): that process.
//!
//! By the device of the file, or if there is no descriptor (open, stat) the one server there is. Must not: guess among several.

use crate::facts::{ObjectRef, ThreadRef};
use crate::graph::index::Index;
use crate::graph::next::Next;
use crate::graph::serving::chosen;
use crate::graph::ways::way::Way;
use crate::model::object::Object;
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

/// The way.
pub(super) static WAY: Way = Way {
    name: "FUSE server",
    because: "it serves the file system",
    of: &[WaitClass::FuseDaemon],
    thresholds: &[],
    follow: |at| fuse_server(at.index, at.wait).map(Next::Thread),
};

fn fuse_server(index: &Index<'_>, wait: &WaitSpan) -> Option<ThreadRef> {
    let processes = match (&wait.place.object, &wait.object) {
        // Of an overlay it is the file system of a layer.
        (Some(ObjectRef::File(_)), Object::FuseFileSystem(Some(dev))) => {
            let ends = index.devices.fuse_servers(*dev);
            ends.iter().map(|end| end.process.clone()).collect()
        }
        (Some(ObjectRef::File(_)), _) => Vec::new(),
        // Without a descriptor (open, stat): the one server there is, if there is but one.
        // A virtual machine's host serves virtiofs by the same protocol, and is not seen from here.
        _ if index.model.disk.mounts.iter().any(|mount| mount.fs_type == "virtiofs") => Vec::new(),
        _ => {
            let ends = index.devices.only_fuse_servers();
            ends.iter().map(|end| end.process.clone()).collect()
        }
    };
    chosen(index, wait, processes)
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::graph::ways::scenes::{NO_ARGS, led, of_ten, place, stands};
    use crate::rules::scenes::{endpoint, fact};

    const DEV: DeviceNumber = DeviceNumber { major: 0, minor: 40 };

    /// Process 10 reads a file that process 20 serves.
    fn reads(
        servers: &[(u32, DeviceNumber)],
        dev: Option<DeviceNumber>,
    ) -> (&'static str, Option<u32>) {
        reads_beside(servers, dev, Body::Mount(Mount::default()))
    }

    fn reads_beside(
        servers: &[(u32, DeviceNumber)],
        dev: Option<DeviceNumber>,
        mount: Body,
    ) -> (&'static str, Option<u32>) {
        let frames = vec!["request_wait_answer".to_string()];
        let mut facts = vec![fact(Body::Stack(Stack { id: 1, frames })), fact(mount)];
        let server = |(pid, dev): &(u32, DeviceNumber)| {
            endpoint(*pid, "sshfs", ObjectRef::FuseServer { dev: *dev })
        };
        facts.extend(servers.iter().map(server));
        let file = |dev| ObjectRef::File(FileRef { dev, ino: 5, ..FileRef::default() });
        let at = place("read", NO_ARGS, dev.map(file));
        facts.push(stands(of_ten(10), Place { stack: 1, ..at }));
        led(facts)
    }

    #[test]
    fn the_server_of_the_device_is_it_and_without_a_device_the_only_one() {
        let other = DeviceNumber { major: 0, minor: 41 };
        let two = [(20, DEV), (21, other)];
        assert_eq!(reads(&two, Some(DEV)), ("FUSE server", Some(20)));
        assert_eq!(reads(&two[..1], None), ("FUSE server", Some(20)));
        assert_ne!(reads(&two, None).0, "FUSE server", "nobody knows which");
    }

    #[test]
    fn of_an_overlay_it_is_the_server_of_its_layer() {
        let overlay = DeviceNumber { major: 0, minor: 50 };
        let led = |lower: &str| {
            let mount = |dev, path: &str, fs_type: &str, options: String| Mount {
                dev,
                path: path.into(),
                fs_type: fs_type.into(),
                options,
                ..Mount::default()
            };
            let frames = vec!["request_wait_answer".to_string()];
            let file =
                FileRef { dev: overlay, ino: 5, fs_type: "overlay".into(), ..FileRef::default() };
            let at = place("openat", NO_ARGS, Some(ObjectRef::File(file)));
            led(vec![
                fact(Body::Stack(Stack { id: 1, frames })),
                fact(Body::Mount(mount(DEV, "/srv/m", "fuse", String::new()))),
                fact(Body::Mount(mount(overlay, "/ov", "overlay", format!("lowerdir={lower}")))),
                endpoint(20, "sshfs", ObjectRef::FuseServer { dev: DEV }),
                stands(of_ten(10), Place { stack: 1, ..at }),
            ])
        };
        assert_eq!(led("/usr:/srv/m"), ("FUSE server", Some(20)));
        assert_ne!(led("/usr").0, "FUSE server");
    }

    #[test]
    fn what_the_host_of_a_virtual_machine_serves_no_process_here_does() {
        let mount = |fs_type: &str| {
            let mount = Mount { fs_type: fs_type.into(), ..Mount::default() };
            reads_beside(&[(20, DEV)], None, Body::Mount(mount)).0
        };
        assert_eq!(mount("ext4"), "FUSE server");
        assert_ne!(mount("virtiofs"), "FUSE server");
    }
}
