//! The allocator: profiles of the memory in use, and when free memory goes back to the system.

use tikv_jemalloc_ctl::{Access, AsName, Name, arenas};

/// The time after which unused memory goes back to the system, in milliseconds. With jemalloc's own, ten seconds, a few
/// requests for much memory in a row, each on other threads, would make the process several times as large.
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

/// Shortens the time for which unused memory is kept, unless the environment sets it.
pub(crate) fn shorten_decay() {
    let name = b"arenas.dirty_decay_ms\0".name();
    let own: Result<isize, _> = name.read();
    if own == Ok(JEMALLOC_DECAY) && name.write(DECAY).is_ok() {
        for_each_arena(|arena, _| arena.write(DECAY));
    }
}

/// Gives unused memory back to the system when requests have released much, until the runtime ends.
pub(crate) async fn purge_on_release() {
    loop {
        binnacle_work::memory_released().await;
        // Pages are given back one range after the other: many milliseconds.
        let given = tokio::task::spawn_blocking(|| {
            // An arena that keeps nothing gives back at once what it has.
            for_each_arena(|arena, decay| arena.write(0_isize).and_then(|()| arena.write(decay)));
        });
        if given.await.is_err() {
            return;
        }
    }
}

/// Changes the time for which each arena keeps unused memory; the function gets its name and the present one.
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
