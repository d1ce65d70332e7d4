//! Whether the name of a function, as a file has it, is a known one.
//!
//! Matched whole, or as the end of a path (`Context::park` of any runtime's), without what a library or a compiler puts around it. Must
//! not: know any name.

/// Without what marks a function as the C library's own: `__GI___pthread_mutex_lock`.
pub(super) fn bare(function: &str) -> &str {
    let inner = function.trim_start_matches('_');
    inner.strip_prefix("GI_").unwrap_or(inner).trim_start_matches('_')
}

/// Behind the last sign of a path.
pub(super) fn last_part(path: &str) -> &str {
    path.rsplit([':', '.', '>']).next().unwrap_or(path)
}

/// Whole, or as the end of a path.
pub(super) fn is_one_of(function: &str, names: &[&str]) -> bool {
    let ends = |function: &str, name: &str| {
        function.strip_suffix(name).is_some_and(|before| {
            before.is_empty()
                || before.ends_with("::")
                || before.ends_with('.')
                || before.ends_with('>')
        })
    };
    let its = |name: &&&str| function.ends_with(**name);
    let mut candidates = names.iter().filter(its);
    if candidates.any(|name| ends(function, name) || ends(bare(function), name)) {
        return true;
    }
    let plain = function.contains('<').then(|| without_types(function));
    plain.is_some_and(|plain| names.iter().any(|name| ends(&plain, name)))
}

/// `std::sync::mpsc::Receiver::recv` of `std::sync::mpsc::Receiver<T>::recv`: without the types that something is of. Of `<std::sync::Mutex>::lock`
/// the brackets alone are left out.
fn without_types(function: &str) -> String {
    let (mut plain, mut depth, mut before) = (String::with_capacity(function.len()), 0_usize, ' ');
    for c in function.chars() {
        match c {
            '<' if depth > 0 || before.is_alphanumeric() || before == '_' || before == ':' => {
                depth += 1
            }
            // `->` of a function's own type closes nothing.
            '>' if depth > 0 && before != '-' => depth -= 1,
            '<' | '>' => {}
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        before = c;
    }
    plain.replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_whole_or_as_the_end_of_a_path() {
        let is = |function, name| is_one_of(function, &[name]);
        assert!(is("__GI___pthread_mutex_lock", "pthread_mutex_lock"));
        assert!(is("tokio::runtime::Context::park_internal", "Context::park_internal"));
        assert!(!is("my_pthread_mutex_lock", "pthread_mutex_lock"));
        assert!(is(
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "Mutex::lock_contended"
        ));
        assert!(is("std::sync::mpmc::list::Channel<T>::recv", "Channel::recv"));
        assert!(is(
            "std::sync::mpsc::Receiver<alloc::boxed::Box<dyn FnOnce() -> u8>>::recv",
            "mpsc::Receiver::recv"
        ));
        assert!(is("crossbeam::channel::Channel::<u8>::send", "Channel::send"));
        assert!(!is("shop::Pool<std::sync::Mutex>::lock_contended", "Mutex::lock_contended"));
        assert!(!is("pthread_mutex_lock_slow", "pthread_mutex_lock"));
    }
}
