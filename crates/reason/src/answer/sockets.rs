//! What is known of the other end of a socket at which a wait leads no further.
//!
//! Nobody owes an answer where there is no other end, nor before there is a connection: who has not been answered yet may ask an address that nobody
//! has, while another one of the same name answers. Must not: say why it does not come about (the rules do).

use super::report::AnswerEnd;
use crate::graph::end::End;
use crate::model::Model;
use crate::model::object::Object;
use crate::waits::WaitClass;

/// A socket without another end.
pub(super) fn is_unconnected(model: &Model, object: &Object) -> bool {
    let Object::Inet(ino) = object else { return false };
    model.called.socket(*ino).is_some_and(|it| it.remote.ip().is_unspecified())
}

/// A socket that asks to be connected.
pub(super) fn is_connecting(model: &Model, end: &End) -> bool {
    let Object::Inet(ino) = &end.object else { return false };
    let asks = model.called.socket(*ino).is_some_and(|it| it.is_connecting());
    asks || end.class == WaitClass::SocketConnect
}

/// What somebody waits for at such a socket.
pub(super) fn owes(end: &AnswerEnd, object: &str) -> String {
    let name = &end.object.name;
    if end.unconnected {
        return format!("what comes to its {object}, which is connected to nobody");
    }
    match name.strip_prefix("tcp ") {
        Some(address) if end.connecting => {
            format!("a connection to {address}, which has not come about")
        }
        _ => format!("{object}, which owes it an answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::report::ObjectName;

    #[test]
    fn who_asks_for_a_connection_is_owed_no_answer() {
        let said = |connecting: bool| {
            let end = serde_json::json!({"end": "remote", "object": ObjectName::new("socket", "tcp 192.0.2.1:7"),
                "seconds": 1.0, "share": 1.0, "longest_seconds": 1.0, "victims": [], "chain": [],
                "connecting": connecting});
            owes(&serde_json::from_value(end).unwrap(), "socket tcp 192.0.2.1:7")
        };
        assert_eq!(said(true), "a connection to 192.0.2.1:7, which has not come about");
        assert_eq!(said(false), "socket tcp 192.0.2.1:7, which owes it an answer");
    }
}
