//! `Event`: a report of something that happened to an object. Too plain to have rules besides validation.

use crate::Strategy;

pub(super) struct Event;

impl Strategy for Event {}
