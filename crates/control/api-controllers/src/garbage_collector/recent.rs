//! The UIDs of the last owners that were deleted.

use std::collections::{HashSet, VecDeque};

use binnacle_meta::Text;

/// The number of UIDs that are remembered.
const MOST: usize = 500;

#[derive(Default)]
pub(super) struct RecentUids {
    known: HashSet<Text>,
    order: VecDeque<Text>,
}

impl RecentUids {
    pub(super) fn add(&mut self, uid: Text) {
        if !self.known.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: &Text) -> bool {
        self.known.contains(uid)
    }
}
