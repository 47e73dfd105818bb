//! Profiles of the memory in use: jemalloc takes samples if its environment variable says so.

/// Returns the memory in use by call stack, in pprof's format.
pub(crate) fn profile() -> Result<Vec<u8>, String> {
    let Some(allocator) = jemalloc_pprof::PROF_CTL.as_ref() else {
        return Err(
            "Heap profiles are off: start the server with _RJEM_MALLOC_CONF=prof:true in its environment".to_owned()
        );
    };
    allocator.blocking_lock().dump_pprof().map_err(|error| format!("Could not make a heap profile: {error}"))
}
