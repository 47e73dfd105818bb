//! `Endpoints`: the addresses behind a service, before there were endpoint slices.

use binnacle_schema::Value;

use crate::Strategy;
use crate::tree::{default_zero, structs_mut};

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        for subset in structs_mut(object.make_object(), "subsets") {
            structs_mut(subset, "ports").for_each(|port| default_zero(port, "protocol", "TCP"));
        }
    }
}
