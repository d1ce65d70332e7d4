//! House rule on kernel programs: no plain load of what the verifier trusts and the memory may not have.
//!
//! Since Linux 6.2 what an argument of `tp_btf` leads to is loaded with nothing that catches a fault. Two types say more than is there:
//! a folio of one page has no second one, and a socket of a connection that has not begun, or has ended, ends behind `sock_common`. A
//! load behind the end is an oops on somebody's host. So the second page is read in compat.bpf.h alone, by a pointer that is not
//! trusted, and a field of a socket by a macro that catches faults, or after `is_mini_socket` was asked about it. Read as text, a function
//! at a time: an address (`&sk->...`) is no load. Must not: know which programs have trusted arguments; elsewhere the macros do no harm.

use super::Breach;
use crate::tree::Tree;

/// Where the kernel programs are.
const PROGRAMS: &str = "crates/probe/bpf/";
/// Where renamed fields are read.
const COMPAT: &str = "crates/probe/bpf/compat.bpf.h";
/// What a socket has in any case.
const COMMON: &str = "__sk_common";
/// Asks whether it has more.
const QUESTION: &str = "is_mini_socket";
/// Members that are sockets.
const SOCKETS: &[&str] = &["sk", "peer", "listener"];
/// What reads with faults caught, or does not read at all.
const CAUTIOUS: &[&str] = &[
    "BPF_CORE_READ",
    "BPF_CORE_READ_INTO",
    "BPF_CORE_READ_BITFIELD_PROBED",
    "bpf_core_read",
    "bpf_core_field_exists",
    "bpf_core_field_size",
    "bpf_core_field_offset",
    "bpf_probe_read_kernel",
    "followed_field",
    "sizeof",
];

/// See the head of the file.
pub(super) fn no_load_behind_the_end(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let files = tree.files.iter().filter(|file| file.path.starts_with(PROGRAMS));
    for file in files.filter(|file| file.has_extension(&[".c", ".h"])) {
        let text = without_comments(&file.text());
        let mut begin = 0;
        for function in text.split_inclusive("\n}") {
            let line = |at: usize| 1 + text[..begin + at].matches('\n').count();
            for load in loads(function) {
                if file.path != COMPAT && is_of_second_page(load.field) {
                    breaches.push(Breach::at(
                        file,
                        line(load.at),
                        format!(
                            "`{}` is of a folio's second page, which may not be there",
                            load.field
                        ),
                        "read it in compat.bpf.h, by a pointer of compat_followed",
                    ));
                } else if load.field != COMMON && load.is_of_socket && !load.is_asked_about {
                    breaches.push(Breach::at(
                        file,
                        line(load.at),
                        format!("`{}` lies behind the end of a mini socket", load.field),
                        "read it by BPF_CORE_READ or followed_field, or ask is_mini_socket before",
                    ));
                }
            }
            begin += function.len();
        }
    }
    breaches
}

/// A plain load by a pointer.
struct Load<'a> {
    at: usize,
    field: &'a str,
    is_of_socket: bool,
    is_asked_about: bool,
}

fn loads(function: &str) -> Vec<Load<'_>> {
    let of = |(at, _): (usize, &str)| {
        let (before, after) = (&function[..at], &function[at + 2..]);
        let field = &after[..after.find(|c: char| !is_of_name(c)).unwrap_or(after.len())];
        let (pointer, head, is_of_socket) = pointer(before);
        // A space behind it would be the operator.
        let is_address = head.ends_with('&') && !head.ends_with("&&");
        (!is_address && !is_within_cautious(before)).then(|| Load {
            at,
            field,
            is_of_socket,
            is_asked_about: before.contains(&format!("{QUESTION}({pointer})")),
        })
    };
    function.match_indices("->").filter_map(of).collect()
}

/// The pointer that text ends with, the text before it, and whether it is one to a socket.
fn pointer(text: &str) -> (&str, &str, bool) {
    // `((struct tcp_sock *)sk)->`
    if let Some(inner) = text.strip_suffix(')') {
        let (name, head, _) = pointer(inner);
        return (name, head, head.ends_with("sock *)"));
    }
    let begin = text.rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
    let (head, name) = text.split_at(begin);
    if head.ends_with("->") || head.ends_with('.') {
        let chain =
            head.rfind(|c: char| !is_of_name(c) && !"->.".contains(c)).map_or(0, |at| at + 1);
        return (name, &head[..chain], SOCKETS.contains(&name));
    }
    let declared = format!("sock *{name}");
    let ends = |at: usize| !text[at + declared.len()..].starts_with(is_of_name);
    let is_of_socket = text.match_indices(&declared).any(|(at, _)| ends(at));
    (name, head, is_of_socket)
}

/// Whether what follows the text is an argument of something that catches faults.
fn is_within_cautious(text: &str) -> bool {
    let mut depth = 0;
    // A statement, or a block, has no call around it.
    for (at, c) in text.char_indices().rev().take_while(|(_, c)| !";{}".contains(*c)) {
        match c {
            ')' => depth += 1,
            '(' if depth > 0 => depth -= 1,
            '(' => {
                let name = text[..at].rsplit(|c: char| !is_of_name(c)).next().unwrap_or_default();
                if CAUTIOUS.contains(&name) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// `_head_1`, `_flags_2a`, `_folio_nr_pages`: what include/linux/mm_types.h lays over the pages behind the first.
fn is_of_second_page(field: &str) -> bool {
    let number = field.rsplit('_').next().unwrap_or_default().trim_end_matches(['a', 'b']);
    field.starts_with("_folio_") || (field.starts_with('_') && matches!(number, "1" | "2" | "3"))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The text with comments as spaces, its lines where they were.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("/*") {
        let (before, comment) = rest.split_at(at);
        let end = comment.find("*/").map_or(comment.len(), |end| end + 2);
        out.push_str(before);
        out.extend(comment[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &comment[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> Vec<usize> {
        let path = format!("{PROGRAMS}{path}");
        let tree = Tree::imagined(&[(path.as_str(), text)]);
        no_load_behind_the_end(&tree).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn a_field_of_a_second_page_is_read_in_one_place() {
        let text = "int f(struct folio *folio)\n{\n\treturn folio->_head_1;\n}\n";
        assert_eq!(breaches("cache.bpf.c", text), [3]);
        assert!(breaches("compat.bpf.h", text).is_empty());
        for (field, is_of_it) in [
            ("_flags_1", true),
            ("_entire_mapcount_2a", true),
            ("_folio_nr_pages", true),
            ("_mapcount", false),
            ("index", false),
            ("sk_1", false),
        ] {
            assert_eq!(is_of_second_page(field), is_of_it, "{field}");
        }
    }

    #[test]
    fn a_field_of_a_socket_is_read_after_the_question_or_with_care() {
        let of = |body: &str| {
            breaches(
                "net.bpf.c",
                &format!("int f(struct sock *sk, struct sk_buff *skb)\n{{\n{body}\n}}\n"),
            )
        };
        for wrong in [
            "return sk->sk_protocol;",
            "return skb->sk->sk_protocol;",
            "return ((struct tcp_sock *)sk)->snd_cwnd;",
            "return sk && sk->sk_protocol;",
            "struct tcp_sock *tcp = (void *)sk; return g(tcp->snd_cwnd);",
            "if (is_mini_socket(other)) return 0; return sk->sk_protocol;",
            "return sk->sk_protocol && is_mini_socket(sk);",
        ] {
            assert_eq!(of(wrong), [3], "{wrong}");
        }
        for right in [
            "return sk->__sk_common.skc_state;",
            "return BPF_CORE_READ(sk, sk_protocol);",
            "if (bpf_core_field_exists(sk->sk_peer_pid)) return 1;",
            "bpf_core_read(to, sizeof(to), &sk->sk_peer_pid);",
            "return g(&sk->sk_peer_pid);",
            "return followed_field(sk, sk_protocol);",
            "return is_mini_socket(sk) || sk->sk_protocol == 6;",
            "struct tcp_sock *tcp = x; return followed_field(tcp, snd_cwnd);",
            "return skb->len;",
            "struct socket *socket = x; return socket->type;",
            "/* sk->sk_protocol */",
        ] {
            assert!(of(right).is_empty(), "{right}");
        }
    }

    #[test]
    fn what_another_function_asked_or_declared_does_not_count() {
        let text = "int f(struct sock *sk)\n{\n\treturn is_mini_socket(sk);\n}\n\
            int g(struct sock *sk)\n{\n\treturn sk->sk_type;\n}\nint h(struct thread *sk)\n{\n\treturn sk->sk_type;\n}\n";
        assert_eq!(breaches("net.bpf.c", text), [7]);
    }
}
