//! Who serves a file: file systems of FUSE, terminals from their other side, and who is asked before files are opened (fanotify).
//!
//! Must not: choose between candidates.

use crate::facts::{DeviceNumber, Endpoint, FANOTIFY, ObjectRef};
use crate::model::Model;
use crate::model::terminal::Terminal;
use std::collections::HashMap;

/// Descriptors of whoever serves a device.
pub struct Devices<'a> {
    fuse: HashMap<DeviceNumber, Vec<&'a Endpoint>>,
    /// By the number of the pair.
    terminals: HashMap<&'a str, Vec<&'a Endpoint>>,
    asked_for_files: Vec<&'a Endpoint>,
}

impl<'a> Devices<'a> {
    /// Indexes a model.
    pub(super) fn new(model: &'a Model) -> Self {
        let mut devices =
            Self { fuse: HashMap::new(), terminals: HashMap::new(), asked_for_files: Vec::new() };
        for endpoint in &model.held.endpoints {
            match &endpoint.object {
                ObjectRef::FuseServer { dev } => {
                    devices.fuse.entry(*dev).or_default().push(endpoint);
                }
                ObjectRef::Tty { name, .. } => {
                    if let Terminal::Shown(index) = Terminal::of(name) {
                        devices.terminals.entry(index).or_default().push(endpoint);
                    }
                }
                ObjectRef::Other { what, .. } if what == FANOTIFY => {
                    devices.asked_for_files.push(endpoint);
                }
                _ => {}
            }
        }
        devices
    }

    /// Who serves a file system of FUSE.
    pub(in crate::graph) fn fuse_servers(&self, dev: DeviceNumber) -> &[&'a Endpoint] {
        self.fuse.get(&dev).map_or(&[], Vec::as_slice)
    }

    /// Who serves the only file system of FUSE that there is; nobody if there are several.
    pub(in crate::graph) fn only_fuse_servers(&self) -> &[&'a Endpoint] {
        let mut all = self.fuse.values();
        match (all.next(), all.next()) {
            (Some(only), None) => only,
            _ => &[],
        }
    }

    /// Who is asked before files are opened, read or executed.
    pub(in crate::graph) fn asked_for_files(&self) -> &[&'a Endpoint] {
        &self.asked_for_files
    }

    /// Who is at the other side of a terminal; nobody knows of one that was not seen.
    pub(in crate::graph) fn terminal_masters(&self, name: &str) -> Option<&[&'a Endpoint]> {
        let Terminal::Used(index) = Terminal::of(name) else { return None };
        self.terminals.get(index).map(Vec::as_slice)
    }
}
