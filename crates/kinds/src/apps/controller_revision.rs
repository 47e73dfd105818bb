//! `ControllerRevision`: a former state of a controller's template, for rolling back.

use crate::Strategy;

pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {}
