//! CSINode: the volume drivers of a node.

use crate::Strategy;

pub(crate) struct CsiNode;

impl Strategy for CsiNode {}
