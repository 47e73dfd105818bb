//! What the cluster allows as a whole: set once at the start from flags.

use std::sync::atomic::{AtomicBool, Ordering};

static ALLOW_PRIVILEGED: AtomicBool = AtomicBool::new(true);

/// Whether containers may be privileged (`--allow-privileged`).
pub fn set_allow_privileged(allow: bool) {
    ALLOW_PRIVILEGED.store(allow, Ordering::Relaxed);
}

pub(crate) fn allow_privileged() -> bool {
    ALLOW_PRIVILEGED.load(Ordering::Relaxed)
}
