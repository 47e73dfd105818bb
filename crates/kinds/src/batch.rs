//! `batch`: pods that run to completion, once or on a schedule.

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[];
