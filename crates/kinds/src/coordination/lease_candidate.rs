//! LeaseCandidate: one that would lead.

use crate::Strategy;

pub(crate) struct LeaseCandidate;

impl Strategy for LeaseCandidate {}
