//! VolumeAttributesClass: parameters of volumes that may change.

use crate::Strategy;

pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {}
