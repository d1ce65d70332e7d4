//! A FUSE file system that looks up its client's name before it grants a lock, as rpc.statd does.
//!
//! It has one file. Reads are answered at once; each SETLK or SETLKW first asks DNS for the name
//! behind an address (PTR), in a thread of its own, and is granted whatever the answer was: the
//! wait before the grant is the fault, not the lock. It keeps no table of locks, so it must not be
//! used to exclude anybody.
//!
//! The look-up is its own packets ([`super::dns::ask`]), or glibc's getnameinfo(3), which reads
//! the resolv.conf and the hosts that the scenario shows it.

use super::{dns, enter};
use crate::load::{Load, read};
use anyhow::Context;
use clap::Args;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, Request, Session,
};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] =
    &[("fuse-lock", Load::Words(|words| read::<FuseLock>(words)?.run()))];

const FRESH: Duration = Duration::from_secs(1);
const FILE: INodeNo = INodeNo(2);
const CONTENT: &[u8] = b"locked by name\n";

/// A FUSE file system that looks up its client's name before it grants a lock.
#[derive(Debug, Args)]
pub struct FuseLock {
    /// Where to mount it.
    mount: PathBuf,
    /// Name of its one file.
    #[arg(long, default_value = "somefile")]
    file: String,
    /// Address to look up.
    #[arg(long, default_value = "192.168.113.7")]
    client: Ipv4Addr,
    /// DNS server to ask with its own packets; without it, glibc asks.
    #[arg(long)]
    server: Option<SocketAddr>,
    /// Time to wait for an answer (own packets only).
    #[arg(long, default_value_t = 5_000)]
    timeout_ms: u64,
    /// How often to ask (own packets only).
    #[arg(long, default_value_t = 2)]
    attempts: u32,
    /// Serve from this network namespace.
    #[arg(long)]
    netns: Option<PathBuf>,
    /// Directory whose files the daemon sees in /etc.
    #[arg(long)]
    etc: Option<PathBuf>,
}

/// How a client's name is looked up.
#[derive(Debug, Clone, Copy)]
struct Monitor {
    client: Ipv4Addr,
    server: Option<SocketAddr>,
    timeout: Duration,
    attempts: u32,
}

impl Monitor {
    /// Blocks until there is an answer or none is to come.
    fn look_up(self) {
        if let Some(server) = self.server {
            let [a, b, c, d] = self.client.octets();
            let name = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
            // Granted either way; only the time matters.
            let _: anyhow::Result<u8> = dns::ask(server, &name, 12, self.timeout, self.attempts);
            return;
        }
        // SAFETY: `address` is a whole sockaddr_in of the length passed, and `name` is as long as is
        // passed; neither is kept.
        unsafe {
            let mut address: libc::sockaddr_in = std::mem::zeroed();
            address.sin_family = libc::AF_INET as u16;
            address.sin_addr.s_addr = u32::from_ne_bytes(self.client.octets());
            let mut name = [0; 1025];
            libc::getnameinfo(
                (&raw const address).cast(),
                size_of::<libc::sockaddr_in>() as u32,
                name.as_mut_ptr(),
                name.len() as u32,
                std::ptr::null_mut(),
                0,
                libc::NI_NAMEREQD,
            );
        }
    }
}

struct LockFs {
    file: String,
    monitor: Monitor,
}

fn attributes(ino: INodeNo) -> FileAttr {
    let directory = ino == INodeNo::ROOT;
    FileAttr {
        ino,
        size: if directory { 0 } else { CONTENT.len() as u64 },
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if directory { FileType::Directory } else { FileType::RegularFile },
        perm: if directory { 0o755 } else { 0o666 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for LockFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without these the kernel keeps the locks to itself and never asks.
        let wanted = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
        config.add_capabilities(wanted).map_err(|_| std::io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == OsStr::new(&self.file) {
            reply.entry(&FRESH, &attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FRESH, &attributes(ino));
    }

    fn open(&self, _: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let from = (offset as usize).min(CONTENT.len());
        reply.data(&CONTENT[from..(from + size as usize).min(CONTENT.len())]);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            let _full: bool = reply.add(FILE, 1, FileType::RegularFile, &self.file);
        }
        reply.ok();
    }

    fn setlk(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        _start: u64,
        _end: u64,
        kind: i32,
        _pid: u32,
        _sleep: bool,
        reply: ReplyEmpty,
    ) {
        if kind == i32::from(libc::F_UNLCK as i16) {
            reply.ok();
            return;
        }
        let monitor = self.monitor;
        std::thread::spawn(move || {
            monitor.look_up();
            reply.ok();
        });
    }
}

impl FuseLock {
    /// Returns when the file system is unmounted. It is mounted where the caller is, and served
    /// from the namespace given.
    pub fn run(self) -> anyhow::Result<()> {
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(self.file.clone()), MountOption::Subtype("lockfs".into())];
        let timeout = Duration::from_millis(self.timeout_ms);
        let monitor =
            Monitor { client: self.client, server: self.server, timeout, attempts: self.attempts };
        let session = Session::new(LockFs { file: self.file, monitor }, &self.mount, &config)
            .with_context(|| format!("mount on {}", self.mount.display()))?;
        enter::enter(self.netns.as_deref(), self.etc.as_deref())?;
        Ok(session.run()?)
    }
}
