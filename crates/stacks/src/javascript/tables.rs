//! Where V8 has what is read of it: its own tables for debuggers, which every build of Node exports (`v8dbg_*`).
//!
//! Owns the names of the entries, and no number: each is read from the program's own file. Releases call some by other names, as the
//! types of fields are part of them; those of Node 18 to 24 are known. Of a release that lacks one nothing is read. Must not:
//! guess a place, or read objects (objects.rs). Rejected: offsets by release, as for Python (V8 has a release every four weeks).

/// An entry that every such program has: who has it not is not V8.
pub(super) const FIRST: &str = "v8dbg_off_fp_function";

/// Bits of a string's type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Strings {
    pub first_other_type: u64,
    pub form_mask: u64,
    pub width_mask: u64,
    pub one_byte: u64,
    pub sequential: u64,
    pub cons: u64,
    pub sliced: u64,
    pub thin: u64,
    pub length: u64,
    pub one_byte_letters: u64,
    pub two_byte_letters: u64,
    pub cons_first: u64,
    pub cons_second: u64,
    pub sliced_parent: u64,
    pub sliced_offset: u64,
    pub thin_actual: u64,
}

/// Entries that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tables {
    /// From the frame pointer.
    pub frame_function: i64,
    pub frame_context: i64,
    pub object_tag: u64,
    pub object_tag_mask: u64,
    /// Bits below a small number.
    pub number_shift: u32,
    pub map: u64,
    pub instance_type: u64,
    pub function_type: u64,
    pub shared_type: u64,
    pub script_type: u64,
    pub scope_type: u64,
    /// That of undefined.
    pub no_value_type: u64,
    pub function_shared: u64,
    pub shared_name: u64,
    pub shared_script: u64,
    pub script_name: u64,
    pub script_source: u64,
    /// Slots of a scope, counted behind its map.
    pub scope_locals: u64,
    pub scope_first: u64,
    pub strings: Strings,
}

impl Tables {
    /// Of a file, by the numbers that it exports; none of a release that lacks one.
    pub(super) fn read(entry: &mut dyn FnMut(&'static str) -> Option<i32>) -> Option<Self> {
        entry(FIRST)?;
        // Slots that are half as wide, and a scope that is an array, are those of other programs and of old releases.
        if entry("v8dbg_parent_ScopeInfo__FixedArray").is_some() {
            return None;
        }
        let mut number =
            |names: &[&'static str]| names.iter().find_map(|name| entry(name)).map(i64::from);
        if number(&["v8dbg_TaggedSize"])? != 8 {
            return None;
        }
        let frame_function = number(&[FIRST])?;
        let frame_context =
            number(&["v8dbg_off_fp_context_or_frame_type", "v8dbg_off_fp_context"])?;
        let mut place = |names: &[&'static str]| u64::try_from(number(names)?).ok();
        let shift = place(&["v8dbg_SmiValueShift"])? + place(&["v8dbg_SmiShiftSize"])?;
        Some(Self {
            frame_function,
            frame_context,
            object_tag: place(&["v8dbg_HeapObjectTag"])?,
            object_tag_mask: place(&["v8dbg_HeapObjectTagMask"])?,
            number_shift: u32::try_from(shift).ok().filter(|shift| *shift < 64)?,
            map: place(&["v8dbg_class_HeapObject__map__Map"])?,
            instance_type: place(&["v8dbg_class_Map__instance_type__uint16_t"])?,
            function_type: place(&["v8dbg_type_JSFunction__JS_FUNCTION_TYPE"])?,
            shared_type: place(&["v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"])?,
            script_type: place(&["v8dbg_type_Script__SCRIPT_TYPE"])?,
            scope_type: place(&["v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE"])?,
            no_value_type: place(&["v8dbg_type_Oddball__ODDBALL_TYPE"])?,
            function_shared: place(&["v8dbg_class_JSFunction__shared__SharedFunctionInfo"])?,
            shared_name: place(&[
                "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
                "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
                "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
            ])?,
            shared_script: place(&[
                "v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
                "v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_",
            ])?,
            script_name: place(&["v8dbg_class_Script__name__Object"])?,
            script_source: place(&["v8dbg_class_Script__source__Object"])?,
            scope_locals: place(&["v8dbg_scopeinfo_idx_ncontextlocals"])?,
            scope_first: place(&["v8dbg_scopeinfo_idx_first_vars"])?,
            strings: Strings::read(&mut place)?,
        })
    }
}

impl Strings {
    fn read(place: &mut dyn FnMut(&[&'static str]) -> Option<u64>) -> Option<Self> {
        Some(Self {
            first_other_type: place(&["v8dbg_FirstNonstringType"])?,
            form_mask: place(&["v8dbg_StringRepresentationMask"])?,
            width_mask: place(&["v8dbg_StringEncodingMask"])?,
            one_byte: place(&["v8dbg_OneByteStringTag"])?,
            sequential: place(&["v8dbg_SeqStringTag"])?,
            cons: place(&["v8dbg_ConsStringTag"])?,
            sliced: place(&["v8dbg_SlicedStringTag"])?,
            thin: place(&["v8dbg_ThinStringTag"])?,
            length: place(&["v8dbg_class_String__length__int32_t"])?,
            one_byte_letters: place(&["v8dbg_class_SeqOneByteString__chars__char"])?,
            two_byte_letters: place(&["v8dbg_class_SeqTwoByteString__chars__char"])?,
            cons_first: place(&["v8dbg_class_ConsString__first__String"])?,
            cons_second: place(&["v8dbg_class_ConsString__second__String"])?,
            sliced_parent: place(&["v8dbg_class_SlicedString__parent__String"])?,
            sliced_offset: place(&["v8dbg_class_SlicedString__offset__SMI"])?,
            thin_actual: place(&["v8dbg_class_ThinString__actual__String"])?,
        })
    }
}
