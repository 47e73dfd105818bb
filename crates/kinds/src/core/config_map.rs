//! `ConfigMap`: configuration as keys and values.

use crate::Strategy;

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {}
