//! The table of a Scale.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_fields::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::{Time, human_duration};
use binnacle_schema::{Value, value};
use binnacle_scheme::Columns;

/// The columns of a Scale. kube-apiserver describes those of custom resources differently.
pub(super) struct ScaleColumns {
    pub(super) is_custom: bool,
}

impl Columns for ScaleColumns {
    fn definitions(&self) -> Value {
        let (format, desired, available, age) = match self.is_custom {
            true => ("name", "Number of desired replicas", "Number of actual replicas", "date"),
            false => ("", described(ScaleSpec::REPLICAS), described(ScaleStatus::REPLICAS), "string"),
        };
        let (name, created) = (described(ObjectMeta::NAME), described(ObjectMeta::CREATION_TIMESTAMP));
        let column = |name: &str, ty: &str, format: &str, description: &str| value!({"name": name, "type": ty, "format": format, "description": description, "priority": 0i64});
        Value::List(vec![
            column("Name", "string", format, name),
            column("Desired", "integer", "", desired),
            column("Available", "integer", "", available),
            column("Age", age, "", created),
        ])
    }

    fn cells(&self, scale: &Value, now: SystemTime) -> Vec<Value> {
        let scale = FieldRef::<Scale>::root(scale);
        let metadata = scale.at(Scale::METADATA);
        vec![
            Value::from(metadata.at(ObjectMeta::NAME).str()),
            Value::from(scale.at(Scale::SPEC).at(ScaleSpec::REPLICAS).int_or_zero()),
            Value::from(scale.at(Scale::STATUS).at(ScaleStatus::REPLICAS).int_or_zero()),
            Value::from(age(metadata.at(ObjectMeta::CREATION_TIMESTAMP).str(), now)),
        ]
    }
}

fn described<M: Message, T>(field: Field<M, T>) -> &'static str {
    binnacle_apimachinery::descriptions::field(M::DEFINITION, field.name()).unwrap_or("")
}

fn age(created: &str, now: SystemTime) -> String {
    let Ok(created) = Time::parse(created) else {
        return "<unknown>".to_owned();
    };
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos());
    human_duration(now.nanos_since(&created).clamp(i64::MIN.into(), i64::MAX.into()))
}
