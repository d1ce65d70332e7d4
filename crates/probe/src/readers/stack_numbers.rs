//! Numbers of kernel stacks that are known by the names of their functions alone: where there are no kernel programs.
//!
//! Each distinct one gets a number and is reported once. Must not: be mixed with the decoder's, which goes by addresses.

use holdup_reason::facts::{Body, Fact, Ns, Stack};

/// The stacks that have a number.
#[derive(Debug, Default)]
pub struct StackNumbers(Vec<Vec<String>>);

impl StackNumbers {
    /// The number of a stack, 0 of none; a new one is reported.
    pub fn of(&mut self, frames: &[String], at_ns: Ns, facts: &mut Vec<Fact>) -> u32 {
        if frames.is_empty() {
            return 0;
        }
        if let Some(known) = self.0.iter().position(|old| old == frames) {
            return known as u32 + 1;
        }
        self.0.push(frames.to_vec());
        let id = self.0.len() as u32;
        facts.push(Fact { at_ns, body: Body::Stack(Stack { id, frames: frames.to_vec() }) });
        id
    }
}
