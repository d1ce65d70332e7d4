//! The few words of D-Bus that are spoken with a manager of units: calls to bytes, bytes to answers. Pure, fuzzed.
//!
//! Of the wire format (D-Bus specification, "Message Protocol") strings, numbers, arrays of them and variants: what ListJobs, GetJobBefore and Get need.
//! Every length is checked against what is there, so that whoever answers can do no more than say something that is not so. Must not: open or
//! wait for anything. Rejected: zbus and its like (an executor, and hundreds of kB for three kinds of calls).

/// A longer message is not read: a manager with a thousand jobs says them in a fifth of that.
pub const MESSAGE_MAX: usize = 1 << 20;

/// Of each message, before its fields.
const HEAD_BYTES: usize = 16;
/// Kinds of messages.
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
/// Fields of a header.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// Whom a call is for.
#[derive(Debug, Clone, Copy)]
pub struct To<'t> {
    /// The name of the peer.
    pub destination: &'t str,
    /// The object.
    pub path: &'t str,
    /// Its interface.
    pub interface: &'t str,
    /// The method.
    pub member: &'t str,
}

/// Arguments of a call, with their types.
#[derive(Debug, Clone, Copy)]
pub enum Arguments<'a> {
    /// None.
    Nothing,
    /// A number.
    Number(u32),
    /// Two texts.
    Texts(&'a str, &'a str),
}

/// A call, by its number.
pub fn call(serial: u32, to: To<'_>, arguments: Arguments<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    let signature = match arguments {
        Arguments::Nothing => "",
        Arguments::Number(value) => {
            number(&mut body, value);
            "u"
        }
        Arguments::Texts(one, other) => {
            text(&mut body, one);
            text(&mut body, other);
            "ss"
        }
    };
    let mut bytes = vec![b'l', CALL, 0, 1];
    number(&mut bytes, body.len() as u32);
    number(&mut bytes, serial);
    number(&mut bytes, 0);
    field(&mut bytes, PATH, b'o', to.path);
    field(&mut bytes, INTERFACE, b's', to.interface);
    field(&mut bytes, MEMBER, b's', to.member);
    field(&mut bytes, DESTINATION, b's', to.destination);
    if !signature.is_empty() {
        pad(&mut bytes, 8);
        bytes.extend([SIGNATURE, 1, b'g', 0, signature.len() as u8]);
        bytes.extend(signature.bytes().chain([0]));
    }
    let fields = (bytes.len() - HEAD_BYTES) as u32;
    bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&fields.to_le_bytes());
    pad(&mut bytes, 8);
    bytes.append(&mut body);
    bytes
}

fn field(bytes: &mut Vec<u8>, code: u8, kind: u8, value: &str) {
    pad(bytes, 8);
    bytes.extend([code, 1, kind, 0]);
    text(bytes, value);
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    number(bytes, value.len() as u32);
    bytes.extend(value.bytes().chain([0]));
}

fn number(bytes: &mut Vec<u8>, value: u32) {
    pad(bytes, 4);
    bytes.extend(value.to_le_bytes());
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// Bytes that are read one value after another.
#[derive(Debug)]
pub struct Bytes<'b> {
    all: &'b [u8],
    at: usize,
    big_endian: bool,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.all.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn align(&mut self, to: usize) -> Option<()> {
        let at = self.at.next_multiple_of(to);
        self.take(at - self.at).map(|_| ())
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes = *self.take(4)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn long(&mut self) -> Option<u64> {
        self.align(8)?;
        let bytes = *self.take(8)?.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = self.number()? as usize;
        self.ended(length)
    }

    fn signature(&mut self) -> Option<&'b str> {
        let length = self.byte()?;
        self.ended(usize::from(length))
    }

    fn ended(&mut self, length: usize) -> Option<&'b str> {
        let text = self.take(length)?;
        self.byte().filter(|end| *end == 0)?;
        std::str::from_utf8(text).ok()
    }

    /// Where an array ends that begins here.
    fn array_end(&mut self) -> Option<usize> {
        let length = self.number()? as usize;
        self.at.checked_add(length)
    }
}

/// The length of the message that begins here; none while too little of it is there to tell.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let mut head = head(bytes.get(..HEAD_BYTES)?);
    let body = u64::from(head.number()?);
    head.at = HEAD_BYTES - 4;
    let fields = u64::from(head.number()?).next_multiple_of(8);
    Some(usize::try_from(HEAD_BYTES as u64 + fields + body).unwrap_or(usize::MAX))
}

/// A message from its length on.
fn head(all: &[u8]) -> Bytes<'_> {
    Bytes { all, at: 4, big_endian: all.first() == Some(&b'B') }
}

/// An answer.
#[derive(Debug)]
pub struct Answer<'b> {
    /// The number of the call.
    pub to: u32,
    /// It was refused.
    pub is_error: bool,
    /// What it says.
    pub body: Bytes<'b>,
}

/// A whole message, if it is an answer.
pub fn answer(message: &[u8]) -> Option<Answer<'_>> {
    let kind = message.get(1).filter(|kind| [RETURN, ERROR].contains(kind))?;
    let mut head = head(message);
    let body = head.number()? as usize;
    head.at = HEAD_BYTES - 4;
    let end = head.array_end()?;
    let mut to = None;
    while head.at < end {
        head.align(8)?;
        let code = head.byte()?;
        match head.signature()? {
            "u" => {
                let value = head.number()?;
                to = (code == REPLY_SERIAL).then_some(value).or(to);
            }
            "s" | "o" => {
                head.text()?;
            }
            "g" => {
                head.signature()?;
            }
            _ => return None,
        }
    }
    let begin = end.checked_next_multiple_of(8)?;
    let all = message.get(begin..begin.checked_add(body)?)?;
    let body = Bytes { all, at: 0, big_endian: head.big_endian };
    Some(Answer { to: to?, is_error: *kind == ERROR, body })
}

/// A job, as a manager lists it.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub id: u32,
    /// The unit's name.
    pub unit: String,
    /// What is to be done.
    pub kind: String,
    /// `running`, or `waiting`.
    pub state: String,
    /// The unit as an object.
    pub path: String,
}

/// Jobs: `a(usssoo)`.
pub fn jobs(body: &mut Bytes<'_>) -> Option<Vec<Listed>> {
    let length = body.number()? as usize;
    let mut all = Vec::new();
    // What pads the first element may be missing where there is none.
    if length == 0 {
        return Some(all);
    }
    body.align(8)?;
    let end = body.at.checked_add(length)?;
    while body.at < end {
        body.align(8)?;
        let id = body.number()?;
        let mut next = || Some(body.text()?.to_string());
        let (unit, kind, state) = (next()?, next()?, next()?);
        next()?;
        all.push(Listed { id, unit, kind, state, path: next()? });
    }
    Some(all)
}

/// The value of a property.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, or the name of an object.
    Text(String),
    /// A number without a sign.
    Number(u64),
    /// Several texts.
    Texts(Vec<String>),
}

/// A variant; none if it has another type.
pub fn value(body: &mut Bytes<'_>) -> Option<Value> {
    match body.signature()? {
        "s" | "o" => Some(Value::Text(body.text()?.to_string())),
        "u" => Some(Value::Number(body.number()?.into())),
        "t" => Some(Value::Number(body.long()?)),
        "as" => {
            let end = body.array_end()?;
            let mut all = Vec::new();
            while body.at < end {
                all.push(body.text()?.to_string());
            }
            Some(Value::Texts(all))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: To<'_> = To { destination: "d", path: "/a", interface: "b.c", member: "M" };

    /// An answer to call 7 with such a body, as a manager writes it.
    fn answered(signature: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![b'l', RETURN, 1, 1];
        number(&mut bytes, body.len() as u32);
        number(&mut bytes, 3);
        number(&mut bytes, 0);
        bytes.extend([REPLY_SERIAL, 1, b'u', 0]);
        number(&mut bytes, 7);
        field(&mut bytes, DESTINATION, b's', ":1.2");
        pad(&mut bytes, 8);
        bytes.extend([SIGNATURE, 1, b'g', 0, signature.len() as u8]);
        bytes.extend(signature.bytes().chain([0]));
        let fields = (bytes.len() - HEAD_BYTES) as u32;
        bytes[12..16].copy_from_slice(&fields.to_le_bytes());
        pad(&mut bytes, 8);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_call_is_written_as_the_specification_has_it() {
        let bytes = call(2, TO, Arguments::Number(5));
        let mut wanted = b"l\x01\x00\x01\x04\x00\x00\x00\x02\x00\x00\x00\x45\x00\x00\x00".to_vec();
        wanted.extend(b"\x01\x01o\x00\x02\x00\x00\x00/a\x00\x00\x00\x00\x00\x00");
        wanted.extend(b"\x02\x01s\x00\x03\x00\x00\x00b.c\x00\x00\x00\x00\x00");
        wanted.extend(b"\x03\x01s\x00\x01\x00\x00\x00M\x00\x00\x00\x00\x00\x00\x00");
        wanted.extend(b"\x06\x01s\x00\x01\x00\x00\x00d\x00\x00\x00\x00\x00\x00\x00");
        wanted.extend(b"\x08\x01g\x00\x01u\x00\x00");
        wanted.extend(b"\x05\x00\x00\x00");
        // The length of the fields is without what pads them.
        wanted[12] = 16 * 4 + 7;
        assert_eq!(bytes, wanted);
        assert_eq!(length(&bytes), Some(bytes.len()));
        assert_eq!(length(&bytes[..15]), None);
        assert!(answer(&bytes).is_none(), "a call is no answer");
    }

    #[test]
    fn two_texts_are_written_one_behind_the_other() {
        let bytes = call(1, TO, Arguments::Texts("ab", "c"));
        assert!(bytes.ends_with(b"\x02\x00\x00\x00ab\x00\x00\x01\x00\x00\x00c\x00"));
        assert_eq!(length(&bytes), Some(bytes.len()));
    }

    #[test]
    fn jobs_are_read_as_a_manager_lists_them() {
        let mut body = Vec::new();
        number(&mut body, 0);
        for (id, unit) in [(57, "hang.service"), (58, "b.service")] {
            pad(&mut body, 8);
            number(&mut body, id);
            for word in [unit, "start", "running", "/job", "/unit"] {
                text(&mut body, word);
            }
        }
        let length = body.len() as u32 - 8;
        body[..4].copy_from_slice(&length.to_le_bytes());
        let message = answered("a(usssoo)", &body);
        let mut answer = answer(&message).expect("an answer");
        assert!(answer.to == 7 && !answer.is_error);
        let all = jobs(&mut answer.body).expect("jobs");
        assert_eq!(all.len(), 2);
        let of = |at: usize| (all[at].id, &*all[at].unit, &*all[at].state, &*all[at].path);
        assert_eq!(of(0), (57, "hang.service", "running", "/unit"));
        assert_eq!(of(1), (58, "b.service", "running", "/unit"));
    }

    #[test]
    fn no_jobs_are_none_with_and_without_what_pads_them() {
        for body in [&[0u8; 4][..], &[0; 8]] {
            let message = answered("a(usssoo)", body);
            assert_eq!(jobs(&mut answer(&message).expect("an answer").body), Some(Vec::new()));
        }
    }

    #[test]
    fn the_value_of_a_property_is_read_by_its_type() {
        let of = |body: &[u8]| value(&mut answer(&answered("v", body)).expect("an answer").body);
        assert_eq!(of(b"\x01s\x00\x00\x02\x00\x00\x00ab\x00"), Some(Value::Text("ab".into())));
        assert_eq!(of(b"\x01u\x00\x00\x09\x00\x00\x00"), Some(Value::Number(9)));
        let long = b"\x01t\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(of(long), Some(Value::Number(u64::MAX)));
        let texts = b"\x02as\x00\x06\x00\x00\x00\x01\x00\x00\x00a\x00";
        assert_eq!(of(texts), Some(Value::Texts(vec!["a".into()])));
        assert_eq!(of(b"\x01b\x00\x00\x01\x00\x00\x00"), None, "a type that is not asked for");
        assert_eq!(of(b"\x01s\x00\x00\xff\xff\xff\xff"), None, "a length that is not there");
        assert_eq!(of(b"\x01s\x00\x00\x01\x00\x00\x00\xff\x00"), None, "no text");
    }
}
