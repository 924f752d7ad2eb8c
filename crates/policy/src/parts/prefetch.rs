//! Telling the processor what is wanted soon: replay knows the references to come, and most of its time would go to waiting for
//! memory.

/// Asks for the cache line of an element, which may be one that does not exist.
#[inline(always)]
pub fn prefetch<T>(elements: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = elements.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch reads nothing that the program sees and never faults, whatever the address; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, index);
}
