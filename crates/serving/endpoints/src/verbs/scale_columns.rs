//! The table of a Scale.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_meta::{Time, human_duration};
use binnacle_schema::{Value, value};
use binnacle_scheme::Columns;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const SCALE_SPEC: &str = "io.k8s.api.autoscaling.v1.ScaleSpec";
const SCALE_STATUS: &str = "io.k8s.api.autoscaling.v1.ScaleStatus";

/// The columns of a Scale. kube-apiserver describes those of custom resources differently.
pub(super) struct ScaleColumns {
    pub(super) is_custom: bool,
}

impl Columns for ScaleColumns {
    fn definitions(&self) -> Value {
        let of = |definition, field| binnacle_apimachinery::descriptions::field(definition, field).unwrap_or("");
        let (format, desired, available, age) = match self.is_custom {
            true => ("name", "Number of desired replicas", "Number of actual replicas", "date"),
            false => ("", of(SCALE_SPEC, "replicas"), of(SCALE_STATUS, "replicas"), "string"),
        };
        let (name, created) = (of(OBJECT_META, "name"), of(OBJECT_META, "creationTimestamp"));
        let column = |name: &str, ty: &str, format: &str, description: &str| value!({"name": name, "type": ty, "format": format, "description": description, "priority": 0i64});
        Value::List(vec![
            column("Name", "string", format, name),
            column("Desired", "integer", "", desired),
            column("Available", "integer", "", available),
            column("Age", age, "", created),
        ])
    }

    fn cells(&self, scale: &Value, now: SystemTime) -> Vec<Value> {
        let replicas = |part: &str| Value::from(scale.int_at(&[part, "replicas"]).unwrap_or(0));
        vec![
            Value::from(scale.str_at(&["metadata", "name"])),
            replicas("spec"),
            replicas("status"),
            Value::from(age(scale, now)),
        ]
    }
}

fn age(scale: &Value, now: SystemTime) -> String {
    let Ok(created) = Time::parse(scale.str_at(&["metadata", "creationTimestamp"])) else {
        return "<unknown>".to_owned();
    };
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
    human_duration(now.nanos_since(&created).clamp(i64::MIN.into(), i64::MAX.into()))
}
