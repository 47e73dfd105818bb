//! The allocator: profiles of the memory in use, and when free memory goes back to the system.

use tikv_jemalloc_ctl::{Access, AsName, arenas};

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
        each_arena(|_| DECAY);
    }
}

/// Gives unused memory back to the system when requests have released much, until the runtime ends.
pub(crate) async fn give_back_what_is_released() {
    loop {
        binnacle_work::memory_released().await;
        // Pages are given back one range after the other: many milliseconds.
        let given = tokio::task::spawn_blocking(|| each_arena(|decay| decay)).await;
        if given.is_err() {
            return;
        }
    }
}

/// Sets the time for which each arena keeps unused memory. jemalloc then gives back what is unused at that moment.
fn each_arena(decay: impl Fn(isize) -> isize) {
    let count = arenas::narenas::read().unwrap_or(0);
    for n in 0..count {
        let name = format!("arena.{n}.dirty_decay_ms\0");
        let name = name.as_bytes().name();
        // Not all arenas exist yet.
        let Ok(present) = name.read() else { continue };
        let _ = name.write(decay(present));
    }
}
