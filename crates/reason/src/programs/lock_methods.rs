//! Methods of libraries that take a lock of their own by trying again, with sleeps in between: a file that must not be there, a key in a store.
//!
//! No kernel and no interpreter knows such a lock. Its class or its file is called a lock, and its method has one of a few names, whatever the
//! library: read of borg, filelock, fasteners, portalocker, lockfile and redis-py. Must not: know a limit on a pace by them, whose method is
//! called the same (`RateLimiter.acquire`).

use super::function_path::last_part;
use super::{is_own_library, is_script};
use crate::facts::UserFrame;

/// What takes such a lock, or enters its block.
const METHODS: &[&str] = &["acquire", "acquire_lock", "__enter__", "lock", "trylock"];

/// Whether a function of a script takes a lock of its library's. Who has taken it is in none any more.
pub fn takes_lock_by_trying(frame: &UserFrame) -> bool {
    // A block and a clock are none.
    let named =
        |text: &str| text.to_lowercase().replace("block", "").replace("clock", "").contains("lock");
    let method = last_part(&frame.function);
    let class = frame.function.strip_suffix(method).unwrap_or_default();
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    let is_locks = match class {
        "" => named(file),
        class => named(class),
    };
    METHODS.contains(&method) && is_locks && is_script(frame) && !is_own_library(frame)
}

#[cfg(test)]
mod tests {
    use super::takes_lock_by_trying;
    use crate::facts::UserFrame;

    #[test]
    fn a_class_or_a_file_of_locks_has_it_and_a_limit_on_a_pace_or_the_language_has_not() {
        let takes = |function: &str, module: &str| {
            let (function, module) = (function.into(), module.into());
            takes_lock_by_trying(&UserFrame { function, module, line: 7 })
        };
        assert!(takes("ExclusiveLock.acquire", "locking.py"));
        assert!(takes("BaseFileLock.__enter__", "filelock/_api.py"));
        assert!(takes("acquire", "lockfile/linklockfile.py"), "before 3.11 without its class");
        assert!(!takes("RateLimiter.acquire", "locking.py"));
        assert!(!takes("BlockingPool.acquire", "pool.py"));
        assert!(!takes("acquire", "clock.py"));
        assert!(takes("BlockingLock.acquire", "pool.py"));
        assert!(!takes("acquire", "limits.py"));
        assert!(!takes("Lock.release", "locking.py"));
        assert!(!takes("Lock.acquire", "python3/threading.py"), "it does not sleep");
        assert!(!takes("Lock.acquire", "app"));
    }
}
