//! Which function was called at a return address, where the one that was entered has no name.
//!
//! A stripped library names only what it exports, and the exported function may be gone from the stack: it jumped to
//! a nameless one of its own. But whoever called it named it: before the return address stands the call, which leads to a stub
//! that jumps to what a slot of the caller's table holds (x86-64; elsewhere nothing is known). Pure over whatever reads
//! the process's memory. Must not: be believed where the callee is in the caller's own file, and has its own name.

/// Reads memory of the process.
pub(crate) type Memory<'a> = dyn FnMut(u64, &mut [u8]) -> Option<()> + 'a;

/// The address of the function that was called.
pub(crate) fn function(returns_to: u64, memory: &mut Memory<'_>) -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    const CALL: u8 = 0xe8;
    let mut before = [0; 6];
    memory(returns_to.checked_sub(6)?, &mut before)?;
    let [first, second, rest @ ..] = before;
    let distance = i64::from(i32::from_le_bytes(rest));
    let target = returns_to.wrapping_add_signed(distance);
    match (first, second) {
        // Through the slot at once.
        (0xff, 0x15) => word(target, memory),
        (_, CALL) => slot(target, memory).and_then(|slot| word(slot, memory)).or(Some(target)),
        _ => None,
    }
}

/// The slot that a stub jumps through.
fn slot(stub: u64, memory: &mut Memory<'_>) -> Option<u64> {
    const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let mut code = [0; 11];
    memory(stub, &mut code)?;
    let landed = if code.starts_with(&LANDING_PAD) { 4 } else { 0 };
    let bound = usize::from(code[landed] == 0xf2);
    let jump = landed + bound;
    if code.get(jump..jump + 2)? != [0xff, 0x25] {
        return None;
    }
    let distance: [u8; 4] = code.get(jump + 2..jump + 6)?.try_into().ok()?;
    let behind = stub.wrapping_add(jump as u64 + 6);
    Some(behind.wrapping_add_signed(i64::from(i32::from_le_bytes(distance))))
}

fn word(at: u64, memory: &mut Memory<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    memory(at, &mut bytes)?;
    Some(u64::from_le_bytes(bytes)).filter(|address| *address != 0)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn called(code: &[u8], returns_to: u64) -> Option<u64> {
        function(returns_to, &mut |at, into| {
            let from = usize::try_from(at).ok()?;
            into.copy_from_slice(code.get(from..from.checked_add(into.len())?)?);
            Some(())
        })
    }

    #[test]
    fn a_call_leads_through_stub_and_slot_to_the_function() {
        let mut code = vec![0x90; 0x100];
        // At 0x10: call 0x40, which has a landing pad and jumps through the slot at 0x80.
        code[0x10..0x15].copy_from_slice(&[0xe8, 0x2b, 0, 0, 0]);
        code[0x40..0x4b]
            .copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x35, 0, 0, 0]);
        code[0x80..0x88].copy_from_slice(&0x7777_u64.to_le_bytes());
        assert_eq!(called(&code, 0x15), Some(0x7777));
        // At 0x20: call through the slot.
        code[0x20..0x26].copy_from_slice(&[0xff, 0x15, 0x5a, 0, 0, 0]);
        assert_eq!(called(&code, 0x26), Some(0x7777));
        // At 0x30: a call of a function without a stub.
        code[0x30..0x35].copy_from_slice(&[0xe8, 0x1b, 0, 0, 0]);
        assert_eq!(called(&code, 0x35), Some(0x50));
        assert_eq!(called(&code, 0x3f), None, "no call");
        assert_eq!(called(&code, 3), None);
    }
}
