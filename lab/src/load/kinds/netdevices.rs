//! Loads of rtnetlink: one that makes and removes network devices, as starters of containers do, and one that asks for one.
//!
//! Both stay in the network namespace that they are started in; the lock that their requests take is the whole host's. Must
//! not: leave a device behind that its namespace does not take with it.

use crate::load::{Figure, Load, Options};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::time::Duration;

/// The kinds of this file.
pub const LOADS: &[(&str, Load)] =
    &[("link-maker", Load::Pairs(link_maker)), ("link-reader", Load::Pairs(link_reader))];

const PAUSE: Duration = Duration::from_millis(20);
/// All that is made is of this group, so that one request removes all.
const GROUP: u32 = 7;

/// Of include/uapi/linux/if_link.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_GROUP: u16 = 27;
const IFLA_INFO_KIND: u16 = 1;

/// A socket for questions to rtnetlink.
struct Rtnetlink(File);

impl Rtnetlink {
    fn open() -> Result<Self> {
        // SAFETY: a new descriptor, which nobody else has.
        unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            match libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) {
                -1 => bail!("netlink: {}", std::io::Error::last_os_error()),
                number => Ok(Self(File::from_raw_fd(number))),
            }
        }
    }

    /// Asks, and reads the answer.
    fn ask(&self, asked: &Request, attributes: &[u8]) -> Result<()> {
        let request = asked.bytes(attributes);
        let mut answer = [0_u8; 8192];
        // SAFETY: both buffers are written or read within their lengths, by a descriptor that is open.
        let got = unsafe {
            if libc::send(self.0.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) < 0 {
                bail!("send: {}", std::io::Error::last_os_error());
            }
            libc::recv(self.0.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        let is_error = answer[4..6] == (libc::NLMSG_ERROR as u16).to_ne_bytes();
        match answer[16..20].first_chunk::<4>() {
            _ if got < 20 => bail!("rtnetlink answered {got} bytes"),
            Some(error) if is_error && *error != [0; 4] => {
                let error = i32::from_ne_bytes(*error);
                bail!("rtnetlink: {}", std::io::Error::from_raw_os_error(-error))
            }
            _ => Ok(()),
        }
    }
}

/// What is asked, with what stands before its attributes.
struct Request {
    kind: u16,
    flags: i32,
    /// Of the link; 0 for those of a group.
    index: i32,
    /// IFF_UP or nothing, if that is to be changed.
    up: Option<i32>,
}

impl Request {
    fn of(kind: u16) -> Self {
        Self { kind, flags: libc::NLM_F_ACK, index: 0, up: None }
    }

    /// struct nlmsghdr, struct ifinfomsg, attributes.
    fn bytes(&self, attributes: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((32 + attributes.len() as u32).to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(((libc::NLM_F_REQUEST | self.flags) as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([0; 4]);
        bytes.extend(self.index.to_ne_bytes());
        bytes.extend(self.up.unwrap_or(0).to_ne_bytes());
        bytes.extend(self.up.map_or(0, |_| libc::IFF_UP).to_ne_bytes());
        bytes.extend(attributes);
        bytes
    }
}

/// One attribute, with what it is filled up to four bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// `--kind K --links N --times T --switch FILE`: while the switch is there, makes N links of a kind, brings them up and down so
/// often, and removes them, again and again. But for the first each is one request for all.
fn link_maker(options: &Options) -> Result<()> {
    let kind = options.text("kind")?.as_bytes();
    let links = options.whole("links", 50)?;
    let times = options.whole("times", 5)?;
    let switch = Path::new(options.text("switch")?);
    let rtnetlink = Rtnetlink::open()?;
    loop {
        if !switch.exists() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK;
        let new = Request { flags, ..Request::of(libc::RTM_NEWLINK) };
        for at in 0..links {
            let attributes = [
                attribute(IFLA_IFNAME, format!("link{at}\0").as_bytes()),
                attribute(IFLA_GROUP, &GROUP.to_ne_bytes()),
                attribute(IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, kind)),
            ];
            rtnetlink.ask(&new, &attributes.concat()).with_context(|| format!("make link{at}"))?;
        }
        let group = attribute(IFLA_GROUP, &GROUP.to_ne_bytes());
        for at in 0..2 * times {
            let up = if at % 2 == 0 { libc::IFF_UP } else { 0 };
            let change = Request { up: Some(up), ..Request::of(libc::RTM_NEWLINK) };
            rtnetlink.ask(&change, &group).context("bring the links up or down")?;
        }
        rtnetlink.ask(&Request::of(libc::RTM_DELLINK), &group).context("remove the links")?;
    }
}

/// `--rest-us R --count C`: asks for the first link of its namespace, again and again.
fn link_reader(options: &Options) -> Result<()> {
    let figure = Figure::open()?;
    let rest = Duration::from_micros(options.whole("rest-us", 1000)?);
    let count = options.whole("count", u64::MAX)?;
    let rtnetlink = Rtnetlink::open()?;
    let first = Request { flags: 0, index: 1, ..Request::of(libc::RTM_GETLINK) };
    while figure.done() < count {
        rtnetlink.ask(&first, &[])?;
        figure.count();
        std::thread::sleep(rest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::attribute;

    #[test]
    fn an_attribute_says_its_length_and_is_filled_up() {
        assert_eq!(attribute(3, b"lo\0"), [7, 0, 3, 0, b'l', b'o', 0, 0]);
    }
}
