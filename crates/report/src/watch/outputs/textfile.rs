//! Figures as a file for node_exporter's textfile collector, whole at any moment.
//!
//! Written aside, in the same folder, under a name that the collector does not read, and renamed. Not synced: after a crash of the
//! host the next window writes it again, and a healthy host shall not wake its disk for figures.

use super::{Failed, Output, Taken, Work};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file.
pub(super) struct TextFileOutput(pub(super) PathBuf);

impl Output for TextFileOutput {
    fn take(&mut self, work: &Work) -> Result<Taken, Failed> {
        if let Work::Metrics(text) = work {
            let Self(path) = self;
            // The next window brings newer ones.
            write(path, text).map_err(|error| {
                Failed::Never(format!("{} cannot be written: {error}", path.display()))
            })?;
        }
        Ok(Taken::Sent)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.tmp"));
    // What lies there was left by a crash, or is somebody's link.
    let _ = std::fs::remove_file(&aside);
    // The collector runs as another user.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&aside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_whole_and_others_may_read_it_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("holdup.prom"), folder.path().join("other"));
        std::fs::write(&other, "other").expect("written");
        std::os::unix::fs::symlink(&other, folder.path().join(".holdup.prom.tmp")).expect("a link");
        write(&path, "a 1\n").expect("written");
        write(&path, "b 2\n").expect("written again");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "b 2\n");
        assert_eq!(std::fs::read_to_string(&other).expect("read"), "other");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o444, 0o444);
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 2);
    }
}
