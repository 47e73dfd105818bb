//! Usage of ResourceClaims: their number, and the number of devices of each class that they request.

use std::collections::BTreeMap;

use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, number};
use crate::plugin::Request;
use crate::plugins::pod_resources::{Resources, add};

pub(super) struct DeviceClaims;

const BY_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The maximum number of devices of an allocation; a request for all devices counts as that many.
const MOST: usize = 32;

impl Evaluator for DeviceClaims {
    fn handles(&self, request: Request<'_>, _: &Value) -> bool {
        request.attributes.subresource.is_empty()
    }

    fn counts(&self, name: &str) -> bool {
        name.ends_with(BY_CLASS) || name == count()
    }

    fn usage(&self, claim: &Value) -> Resources {
        let mut usage = Resources::from([(count(), number(1))]);
        for request in claim.list_at(&["spec", "devices", "requests"]) {
            let alternatives = request.list_at(&["firstAvailable"]);
            let exactly = request.get("exactly").filter(|exactly| !exactly.is_null());
            // Only one of the alternatives is allocated, so the maximum of each class counts.
            let mut most: BTreeMap<&str, usize> = BTreeMap::new();
            for asked in alternatives.iter().chain(exactly.filter(|_| alternatives.is_empty())) {
                let devices = devices(asked);
                let there = most.entry(asked.str_at(&["deviceClassName"])).or_default();
                *there = (*there).max(devices);
            }
            let most = most.into_iter().map(|(class, devices)| (format!("{class}{BY_CLASS}"), number(devices)));
            add(&mut usage, &most.collect());
        }
        usage
    }
}

fn count() -> String {
    count_of("resource.k8s.io", "resourceclaims")
}

fn devices(asked: &Value) -> usize {
    match asked.str_at(&["allocationMode"]) {
        "ExactCount" => asked.int_at(&["count"]).and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
        "All" => MOST,
        _ => 0,
    }
}
