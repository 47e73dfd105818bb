//! Profiles of the memory in use: jemalloc takes samples where its environment variable asks for them.

/// The memory in use by where it was taken, in pprof's format.
pub(crate) fn profile() -> Result<Vec<u8>, String> {
    let Some(allocator) = jemalloc_pprof::PROF_CTL.as_ref() else {
        return Err(
            "Heap profiles are off: start the server with _RJEM_MALLOC_CONF=prof:true in its environment".to_owned()
        );
    };
    allocator.blocking_lock().dump_pprof().map_err(|error| format!("Could not make a heap profile: {error}"))
}
