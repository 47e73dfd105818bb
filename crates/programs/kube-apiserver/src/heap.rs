//! The allocator: heap profiles, and the return of free memory to the system.

use tikv_jemalloc_ctl::{Access, AsName, Name, arenas};

/// The time in milliseconds after which unused memory is returned to the system. With jemalloc's default of ten
/// seconds, a few successive requests that need much memory, on different threads, would make the process several times
/// as large.
const DECAY: isize = 1000;
const JEMALLOC_DECAY: isize = 10_000;

/// Returns the memory in use by call stack, in pprof's format.
pub(crate) fn profile() -> Result<Vec<u8>, String> {
    let Some(allocator) = jemalloc_pprof::PROF_CTL.as_ref() else {
        return Err(
            "Heap profiles are off: start the server with _RJEM_MALLOC_CONF=prof:true in its environment".to_owned()
        );
    };
    allocator.blocking_lock().dump_pprof().map_err(|error| format!("Could not make a heap profile: {error}"))
}

/// Shortens the time for which unused memory is retained, unless the environment sets it.
pub(crate) fn shorten_decay() {
    let name = b"arenas.dirty_decay_ms\0".name();
    let own: Result<isize, _> = name.read();
    if own == Ok(JEMALLOC_DECAY) && name.write(DECAY).is_ok() {
        for_each_arena(|arena, _| arena.write(DECAY));
    }
}

/// Returns unused memory to the system whenever requests have released much of it, until the runtime ends.
pub(crate) async fn purge_on_release() {
    loop {
        binnacle_work::memory_released().await;
        // Returning pages range by range takes many milliseconds.
        let given = tokio::task::spawn_blocking(|| {
            // Setting the time to 0 purges an arena at once.
            for_each_arena(|arena, decay| arena.write(0_isize).and_then(|()| arena.write(decay)));
        });
        if given.await.is_err() {
            return;
        }
    }
}

/// Changes the decay time of each arena. `change` receives its name and the current time.
fn for_each_arena(change: impl Fn(&Name, isize) -> tikv_jemalloc_ctl::Result<()>) {
    let count = arenas::narenas::read().unwrap_or(0);
    for n in 0..count {
        let name = format!("arena.{n}.dirty_decay_ms\0");
        let name = name.as_bytes().name();
        // Not all arenas exist yet.
        let Ok(present) = name.read() else { continue };
        if let Err(error) = change(name, present) {
            tracing::debug!(%error, arena = n, "failed to release unused memory");
        }
    }
}
