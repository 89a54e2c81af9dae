//! Memory that the allocator keeps.

/// Gives back to the system what was freed: the allocator keeps pages between those that are used still. For those who start
/// another program and wait for it. Does nothing where the C library is not GNU's.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[allow(unsafe_code)]
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: it may be called at any time by any thread, takes a number of bytes that stay at the end of the heap, and
        // changes no byte that is allocated.
        #[allow(unsafe_code)]
        let _ = unsafe { malloc_trim(0) };
    }
}
