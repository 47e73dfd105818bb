//! Random numbers that need not be unpredictable.

use uuid::Uuid;

/// Returns a number below `limit`, 0 for a limit of 0.
pub(crate) fn below(limit: u128) -> u128 {
    // The few fixed bits of a version 4 UUID are above its low 62.
    let low = |id: Uuid| id.as_u128() & ((1 << 62) - 1);
    if limit <= 1 {
        return 0;
    }
    let wide = (low(Uuid::new_v4()) << 62) | low(Uuid::new_v4());
    wide % limit
}
