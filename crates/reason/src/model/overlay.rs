//! Overlays: which file system of a program lies below one.
//!
//! An overlay serves nothing itself. Its mount's options name the directories of its layers, absolute, or as mount(8) was given them: relative
//! to a directory that is not known, and then the one mount counts whose path ends so. Must not: choose among several.

use super::disk::Disks;
use crate::facts::{DeviceNumber, Mount};
use std::collections::BTreeSet;

/// The options that name layers.
const LAYERS: [&str; 4] = ["lowerdir=", "lowerdir+=", "datadir+=", "upperdir="];

/// The only file system that a program serves (FUSE) among the layers of an overlay; none of any other file system.
pub fn served_layer(disks: &Disks, overlay: DeviceNumber) -> Option<DeviceNumber> {
    let is_it = |mount: &&Mount| mount.dev == overlay && mount.fs_type == "overlay";
    let options = &disks.mounts.iter().find(is_it)?.options;
    let layers = options.split(',').filter_map(|option| {
        LAYERS.iter().find_map(|name| option.strip_prefix(name)).map(|paths| paths.split(':'))
    });
    let found: BTreeSet<(u32, u32)> = layers
        .flatten()
        .filter_map(|layer| mount_under(disks, layer))
        .filter(|mount| is_served(mount))
        .map(|mount| (mount.dev.major, mount.dev.minor))
        .collect();
    let mut found = found.into_iter();
    let (Some((major, minor)), None) = (found.next(), found.next()) else { return None };
    Some(DeviceNumber { major, minor })
}

/// Of FUSE: `fuse`, `fuse.sshfs`, `fuseblk`.
fn is_served(mount: &Mount) -> bool {
    mount.fs_type.starts_with("fuse")
}

/// The mount that a layer lies on.
fn mount_under<'m>(disks: &'m Disks, layer: &str) -> Option<&'m Mount> {
    if layer.starts_with('/') {
        let holds = |mount: &&Mount| is_within(layer, &mount.path);
        return disks.mounts.iter().filter(holds).max_by_key(|mount| mount.path.len());
    }
    let first = layer.trim_start_matches("./");
    let ends_so = |mount: &&Mount| {
        let ends = |end: &str| mount.path.strip_suffix(end).is_some_and(|it| it.ends_with('/'));
        std::iter::successors(Some(first), |path| Some(path.rsplit_once('/')?.0))
            .any(|end| !end.is_empty() && ends(end))
    };
    let mut all = disks.mounts.iter().filter(|mount| is_served(mount)).filter(ends_so);
    all.next().filter(|one| all.all(|other| other.dev == one.dev))
}

fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAY: DeviceNumber = DeviceNumber { major: 0, minor: 40 };

    fn mount(minor: u32, path: &str, fs_type: &str, options: &str) -> Mount {
        Mount {
            dev: DeviceNumber { major: 0, minor },
            path: path.into(),
            fs_type: fs_type.into(),
            options: options.into(),
            ..Mount::default()
        }
    }

    /// The minor number of what is found beneath an overlay with these options.
    fn below(options: &str) -> Option<u32> {
        let mounts = vec![
            mount(1, "/", "ext4", "rw"),
            mount(39, "/srv/app/m", "fuse.bindfs", "rw"),
            mount(38, "/srv/other", "fuse", "rw"),
            mount(37, "/srv/app/m/disk", "ext4", "rw"),
            mount(40, "/srv/app/ov", "overlay", options),
        ];
        let disks = Disks { mounts, ..Disks::default() };
        served_layer(&disks, OVERLAY).map(|dev| dev.minor)
    }

    #[test]
    fn the_layer_that_a_program_serves_is_found_by_its_directory() {
        assert_eq!(below("rw,lowerdir=/usr:/srv/app/m/x,upperdir=/up,workdir=/wk"), Some(39));
        assert_eq!(below("rw,lowerdir=m,upperdir=up,workdir=wk"), Some(39), "as it was mounted");
        assert_eq!(below("rw,lowerdir+=/usr,lowerdir+=/srv/other"), Some(38));
    }

    #[test]
    fn layers_on_disks_and_of_several_programs_are_none() {
        assert_eq!(below("rw,lowerdir=/usr,upperdir=/up,workdir=/srv/app/m"), None);
        assert_eq!(below("rw,lowerdir=/srv/app/m/disk/x,upperdir=/up"), None, "a mount within it");
        assert_eq!(below("rw,lowerdir=/srv/app/m:/srv/other"), None, "nobody knows which");
        assert_eq!(below("rw,lowerdir=n,upperdir=up"), None);
    }
}
