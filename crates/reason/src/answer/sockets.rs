//! What is known of the other end of a socket at which a wait leads no further.
//!
//! Nobody owes an answer where there is no other end, nor before there is a connection: who waits for one may ask an address that nobody has, while
//! another one of the same name answers. Must not: say why a connection takes so long, or whether it came about in the end (the rules do).

use super::report::AnswerEnd;
use crate::model::Model;
use crate::model::object::Object;

/// A socket without another end.
pub(super) fn is_unconnected(model: &Model, object: &Object) -> bool {
    let Object::Inet(ino) = object else { return false };
    model.called.socket(*ino).is_some_and(|it| it.remote.ip().is_unspecified())
}

/// What somebody waits for at such a socket.
pub(super) fn owes(end: &AnswerEnd, object: &str) -> String {
    let name = &end.object.name;
    if end.unconnected {
        return format!("what comes to its {object}, which is connected to nobody");
    }
    match name.strip_prefix("tcp ") {
        Some(address) if end.connecting => format!("a connection to {address}"),
        _ => format!("{object}, which owes it an answer"),
    }
}
