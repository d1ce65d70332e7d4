//! What a process has mapped where, asked of /proc/PID/maps by address (PROCMAP_QUERY, since Linux 6.11).
//!
//! Owns the question's binary form. A kernel that does not know it refuses, and whoever asks reads the text instead. Must not: open the
//! file of a process, or what is mapped.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Query {
    bytes: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device_major: u32,
    device_minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong =
    3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
const QUERY_EXECUTABLE: u64 = 4;
const QUERY_COVERING_OR_NEXT: u64 = 0x10;

/// A stretch of memory as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Of the file, 0 if there is none.
    pub inode: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// As the text has it.
    pub path: String,
}

/// The kernel does not know the question, or the process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// The executable mapping at an address of the process whose maps these are.
pub fn executable_at(maps: &File, address: u64) -> Result<Option<Answer>, Refused> {
    ask(maps, address, 0)
}

/// The same, or else the first behind the address.
pub fn executable_from(maps: &File, address: u64) -> Result<Option<Answer>, Refused> {
    ask(maps, address, QUERY_COVERING_OR_NEXT)
}

fn ask(maps: &File, address: u64, flags: u64) -> Result<Option<Answer>, Refused> {
    let mut path = [0_u8; libc::PATH_MAX as usize];
    let mut query = Query {
        bytes: size_of::<Query>() as u64,
        flags: QUERY_EXECUTABLE | flags,
        address,
        name_bytes: path.len() as u32,
        name: path.as_mut_ptr() as u64,
        ..Query::default()
    };
    // SAFETY: the query and the room for a name outlive the call, and their lengths are passed with them.
    let failed = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &mut query) };
    if failed != 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        return if error == Some(libc::ENOENT) { Ok(None) } else { Err(Refused) };
    }
    let name = path.get(..(query.name_bytes as usize).saturating_sub(1)).unwrap_or_default();
    Ok(Some(Answer {
        start: query.start,
        end: query.end,
        offset: query.offset,
        inode: query.inode,
        device: (query.device_major, query.device_minor),
        path: String::from_utf8_lossy(name).into_owned(),
    }))
}
