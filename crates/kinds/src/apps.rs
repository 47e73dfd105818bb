//! `apps`: workloads made of pods.

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[];
