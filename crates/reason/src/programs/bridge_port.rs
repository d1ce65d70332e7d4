//! What a program that makes an interface a port of a bridge is called with: `ip link set veth7 master br0`, `brctl addif br0 veth7`.
//!
//! Must not: say whether it went well. Rejected: any word that is a bridge's name (`ping -I br0` attaches nothing).

/// Which interface is to be whose port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgePort<'a> {
    /// The bridge.
    pub bridge: &'a str,
    /// All words, among which the interface is, if it is not made by the same call.
    words: &'a [String],
    /// The call makes the interface.
    pub is_new: bool,
    /// The network namespace by its name, where the call says it.
    pub namespace: Option<&'a str>,
}

impl<'a> BridgePort<'a> {
    /// Of a program's arguments, its own name first; none if they do not ask for that.
    pub fn of(words: &'a [String]) -> Option<Self> {
        let program = words.first()?.rsplit('/').next()?;
        let after = |word: &str| {
            let at = words.iter().position(|it| it == word)?;
            words.get(at + 1).map(String::as_str)
        };
        let has = |word: &str| words.iter().any(|it| it == word);
        let bridge = match program {
            "ip" if has("link") || has("l") => after("master")?,
            "brctl" => after("addif")?,
            _ => return None,
        };
        let namespace = ["-n", "-netns", "--netns"].into_iter().find_map(after);
        Some(Self { bridge, words, is_new: program == "ip" && has("add"), namespace })
    }

    /// Whether it names an interface.
    pub fn names(&self, interface: &str) -> bool {
        interface != self.bridge && self.words.iter().any(|word| word == interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn both_tools_say_which_bridge() {
        let given = words("/sbin/ip -n shop link set dev veth7 master br0 up");
        let port = BridgePort::of(&given).unwrap();
        assert_eq!((port.bridge, port.namespace, port.is_new), ("br0", Some("shop"), false));
        assert!(port.names("veth7") && !port.names("br0") && !port.names("veth8"));
        let given = words("brctl addif br0 veth7");
        assert_eq!(BridgePort::of(&given).unwrap().bridge, "br0");
        let given = words("ip link add veth7 master br0 type veth peer name eth0");
        assert!(BridgePort::of(&given).unwrap().is_new);
    }

    #[test]
    fn what_only_names_a_bridge_attaches_nothing() {
        for text in ["ping -I br0 10.0.0.1", "ip link show br0", "ip link set veth7 nomaster", "ip"]
        {
            assert_eq!(BridgePort::of(&words(text)), None, "{text}");
        }
    }
}
