//! The core group: pods and what they need.

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[];
