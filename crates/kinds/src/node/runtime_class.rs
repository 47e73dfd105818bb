//! RuntimeClass: how the containers of a pod are run.

use crate::Strategy;

pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {}
