//! Reading the kernel's iterators: records out of what a walk gives, and walks of one process only.
//!
//! A walk of all threads takes some microsecond for each, also of those that nobody wants. Since Linux 6.1 the task
//! iterator can be bound to a process when it is attached; older kernels refuse, and all threads are walked. Must not: know
//! what a record says.

use crate::SourceError;
use crate::decode::wire::{self, wire_head};
use crate::refusal::{self, Refusal};
use libbpf_rs::{Iter, Link, ProgramMut, libbpf_sys};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The iterators, attached.
pub(crate) struct Iterators {
    threads: Link,
    endpoints: Link,
    of_process: Option<OfProcess>,
    /// A walk has learnt the offset of the scheduler's clock.
    pub knows_clock: bool,
}

fn bpf(doing: &'static str) -> impl Fn(libbpf_rs::Error) -> SourceError {
    move |error| SourceError::Bpf { doing: doing.into(), error: format!("{error:#}") }
}

impl Iterators {
    /// Attaches them.
    pub(crate) fn attach(
        threads: &ProgramMut<'_>,
        endpoints: &ProgramMut<'_>,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            threads: threads.attach().map_err(refusal::of("attach the task iterator"))?,
            endpoints: endpoints.attach().map_err(refusal::of("attach the descriptor iterator"))?,
            of_process: None,
            knows_clock: false,
        })
    }

    /// A walk of all threads.
    pub(crate) fn threads(&self) -> Result<Iter, SourceError> {
        Iter::new(&self.threads).map_err(bpf("tasks"))
    }

    /// A walk of all open descriptors.
    pub(crate) fn endpoints(&self) -> Result<Iter, SourceError> {
        Iter::new(&self.endpoints).map_err(bpf("descriptors"))
    }

    /// A walk of one process's threads, if there is such a thing.
    pub(crate) fn threads_of(&mut self, program: BorrowedFd<'_>, pid: u32) -> Option<File> {
        if pid == 0 {
            return None;
        }
        if self.of_process.as_ref().is_none_or(|it| !it.is_of(pid)) {
            self.of_process = Some(OfProcess::bind(program, pid));
        }
        self.of_process.as_ref()?.walk()
    }
}

/// The task iterator bound to a process.
pub(crate) struct OfProcess {
    pid: u32,
    /// None if the kernel cannot.
    link: Option<OwnedFd>,
}

impl OfProcess {
    /// Binds it.
    pub(crate) fn bind(program: BorrowedFd<'_>, pid: u32) -> Self {
        Self { pid, link: bound_link(program, pid) }
    }

    /// Whether it is bound to this process.
    pub(crate) fn is_of(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// A walk of its threads; none if the kernel cannot.
    pub(crate) fn walk(&self) -> Option<File> {
        let link = self.link.as_ref()?;
        // SAFETY: a descriptor that is open; no memory is passed.
        let fd = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
        // SAFETY: a fresh descriptor that nobody else owns.
        (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
    }
}

fn bound_link(program: BorrowedFd<'_>, pid: u32) -> Option<OwnedFd> {
    let mut info = libbpf_sys::bpf_iter_link_info::default();
    info.task.pid = pid;
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        iter_info: &mut info,
        iter_info_len: size_of::<libbpf_sys::bpf_iter_link_info>() as u32,
        ..Default::default()
    };
    let (program, kind) = (program.as_raw_fd(), libbpf_sys::BPF_TRACE_ITER);
    // SAFETY: the options and what they point to outlive the call; a loaded program's descriptor.
    let fd = unsafe { libbpf_sys::bpf_link_create(program, 0, kind, &options) };
    // SAFETY: a fresh descriptor that nobody else owns.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls for each record of a walk. What is read at once is small: a host may have many threads.
pub(crate) fn each_record(
    mut walk: impl Read,
    what: &str,
    mut call: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    const READ_BYTES: usize = 64 << 10;
    let mut bytes = vec![0; READ_BYTES];
    let mut filled = 0;
    loop {
        let read = match walk.read(&mut bytes[filled..]) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let doing = format!("read the {what} iterator");
                return Err(SourceError::System { doing, error });
            }
        };
        filled += read;
        let mut done = 0;
        while let Some(record) = first_record(&bytes[done..filled]) {
            call(record);
            done += record.len();
        }
        // The kernel may end a read within a record.
        bytes.copy_within(done..filled, 0);
        filled -= done;
        if filled == bytes.len() {
            let doing = format!("read a record of the {what} iterator");
            let error = std::io::Error::other("it is longer than 64 KiB, or tells no length");
            return Err(SourceError::System { doing, error });
        }
    }
}

/// The first record, if it is there whole; its length is what it tells.
fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    let head: wire_head = wire::read(bytes.get(..size_of::<wire_head>())?);
    let length = head.length as usize;
    if length < size_of::<wire_head>() {
        return None;
    }
    bytes.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk that ends its reads within records, as the kernel may.
    struct Pieces(Vec<u8>, usize);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    fn record(length: u32) -> Vec<u8> {
        let head = wire_head { length, ..wire::read(&[0; size_of::<wire_head>()]) };
        // SAFETY: plain numbers without padding, as wide as the slice says.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&head).cast::<u8>(), size_of_val(&head))
        };
        let mut all = bytes.to_vec();
        all.resize(length.max(all.len() as u32) as usize, 7);
        all
    }

    #[test]
    fn records_come_whole_however_they_are_read() {
        let all = [record(64), record(40), record(1000)].concat();
        for piece in [1, 50, 4096] {
            let mut lengths = Vec::new();
            each_record(Pieces(all.clone(), piece), "x", |it| lengths.push(it.len())).unwrap();
            assert_eq!(lengths, [64, 40, 1000]);
        }
        let endless = vec![0_u8; 1 << 20];
        assert!(each_record(Pieces(endless, 4096), "x", |_| ()).is_err());
    }
}
