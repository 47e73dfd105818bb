//! CSIStorageCapacity: how much storage of a class a part of the cluster can get.

use crate::Strategy;

pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {}
