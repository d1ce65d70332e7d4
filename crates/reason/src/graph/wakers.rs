//! Who ended a wait, as far as the wake-up tells.
//!
//! A task that wakes in its own context is believed. What runs in an interrupt is a bystander, unless it carried a packet: then
//! only somebody at the other end is to be believed. A kernel thread acts for others. Must not: follow anybody.

use super::peers::Peers;
use crate::facts::{ThreadRef, WakeContext};
use crate::waits::WaitClass;
use crate::waits::timeline::WaitSpan;

impl Peers<'_> {
    /// The task that woke it, unless it was an interrupt or the idle task.
    pub fn waker(&self, wait: &WaitSpan) -> Option<ThreadRef> {
        let wake = wait.wake.as_ref()?;
        let is_itself = || self.model.is_same(&wake.by, &wait.thread);
        (wake.context == WakeContext::Task && wake.by.tid != 0 && !is_itself())
            .then(|| wake.by.clone())
    }
}

/// Whether a kernel thread ended a wait, for somebody who was not seen.
pub fn by_kernel_thread(wait: &WaitSpan) -> bool {
    wait.wake.as_ref().is_some_and(|wake| wake.by_kernel_thread)
}

/// Whose thread carried the packet that ended a wait: on one host the sender's own, in a soft interrupt. It may
/// be a bystander: only somebody at the other end is to be believed.
pub fn carrier(wait: &WaitSpan) -> Option<&ThreadRef> {
    let wake = wait.wake.as_ref()?;
    let carries = matches!(wake.context, WakeContext::Task | WakeContext::SoftInterrupt);
    (carries && wake.by.tid != 0 && !wake.by_kernel_thread).then_some(&wake.by)
}

/// It stands still, whoever made it.
pub fn is_stalled(class: WaitClass) -> bool {
    matches!(class, WaitClass::Stopped | WaitClass::Traced | WaitClass::FrozenCgroup)
}
