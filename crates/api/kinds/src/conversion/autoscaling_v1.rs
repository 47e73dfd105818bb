//! Structs of autoscaling/v1 that are not part of any field of its kinds, and exist only as JSON in annotations.

use std::sync::LazyLock;

use binnacle_fields::autoscaling::v1::CrossVersionObjectReference;
use binnacle_fields::messages;
use binnacle_fields::meta::v1::LabelSelector;
use binnacle_fields::types::{Int, Quantity, Str};
use binnacle_schema::{Field, Message, MessageRef, Presence, Ty};

use crate::tables;

messages! {
    /// The fields of sources and statuses of metrics that v2 lacks. Each of the structs has some of them.
    pub(super) MetricV1 {
        TARGET: CrossVersionObjectReference = "target",
        METRIC_NAME: Str = "metricName",
        SELECTOR: LabelSelector = "selector",
        METRIC_SELECTOR: LabelSelector = "metricSelector",
        AVERAGE_VALUE: Quantity = "averageValue",
        TARGET_VALUE: Quantity = "targetValue",
        TARGET_AVERAGE_VALUE: Quantity = "targetAverageValue",
        TARGET_AVERAGE_UTILIZATION: Int = "targetAverageUtilization",
        CURRENT_VALUE: Quantity = "currentValue",
        CURRENT_AVERAGE_VALUE: Quantity = "currentAverageValue",
        CURRENT_AVERAGE_UTILIZATION: Int = "currentAverageUtilization",
    }
}

/// `{"items": [...]}` around a list of metrics.
pub(super) static METRICS: LazyLock<Message> = LazyLock::new(|| items("MetricSpec", metric_spec()));

/// `{"items": [...]}` around a list of current metrics.
pub(super) static CURRENT_METRICS: LazyLock<Message> = LazyLock::new(|| items("MetricStatus", metric_status()));

/// `{"items": [...]}` around a list of conditions.
pub(super) static CONDITIONS: LazyLock<Message> = LazyLock::new(|| {
    items(
        "HorizontalPodAutoscalerCondition",
        vec![
            always("type", Ty::String),
            always("status", Ty::String),
            always("lastTransitionTime", Ty::Time),
            omitted("reason", Ty::String),
            omitted("message", Ty::String),
        ],
    )
});

/// The scaling behavior. Its annotation holds kube-apiserver's internal struct: Go names, and `null` for unset fields.
pub(super) static BEHAVIOR: LazyLock<Message> = LazyLock::new(|| {
    let policy = message(
        "HPAScalingPolicy",
        vec![always("Type", Ty::String), always("Value", Ty::Int32), always("PeriodSeconds", Ty::Int32)],
    );
    let rules = message(
        "HPAScalingRules",
        vec![
            nullable("StabilizationWindowSeconds", Ty::Int32),
            nullable("SelectPolicy", Ty::String),
            nullable("Policies", Ty::List(Box::new(policy))),
            nullable("Tolerance", Ty::Quantity),
        ],
    );
    Message::new(
        "HorizontalPodAutoscalerBehavior",
        vec![nullable("ScaleUp", rules.clone()), nullable("ScaleDown", rules)],
    )
});

/// The member that holds the lists above.
pub(super) const ITEMS: &str = "items";

fn metric_spec() -> Vec<Field> {
    let source = |name, fields| optional(name, message(name, fields));
    let utilization = || {
        [
            optional(MetricV1::TARGET_AVERAGE_UTILIZATION.name(), Ty::Int32),
            optional(MetricV1::TARGET_AVERAGE_VALUE.name(), Ty::Quantity),
        ]
    };
    vec![
        always("type", Ty::String),
        source(
            "object",
            vec![
                always(MetricV1::TARGET.name(), reference()),
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                always(MetricV1::TARGET_VALUE.name(), Ty::Quantity),
                optional(MetricV1::SELECTOR.name(), selector()),
                optional(MetricV1::AVERAGE_VALUE.name(), Ty::Quantity),
            ],
        ),
        source(
            "pods",
            vec![
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                always(MetricV1::TARGET_AVERAGE_VALUE.name(), Ty::Quantity),
                optional(MetricV1::SELECTOR.name(), selector()),
            ],
        ),
        source("resource", [always("name", Ty::String)].into_iter().chain(utilization()).collect()),
        source(
            "containerResource",
            [always("name", Ty::String)]
                .into_iter()
                .chain(utilization())
                .chain([always("container", Ty::String)])
                .collect(),
        ),
        source(
            "external",
            vec![
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                optional(MetricV1::METRIC_SELECTOR.name(), selector()),
                optional(MetricV1::TARGET_VALUE.name(), Ty::Quantity),
                optional(MetricV1::TARGET_AVERAGE_VALUE.name(), Ty::Quantity),
            ],
        ),
    ]
}

fn metric_status() -> Vec<Field> {
    let status = |name, fields| optional(name, message(name, fields));
    let utilization = || {
        [
            optional(MetricV1::CURRENT_AVERAGE_UTILIZATION.name(), Ty::Int32),
            always(MetricV1::CURRENT_AVERAGE_VALUE.name(), Ty::Quantity),
        ]
    };
    vec![
        always("type", Ty::String),
        status(
            "object",
            vec![
                always(MetricV1::TARGET.name(), reference()),
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                always(MetricV1::CURRENT_VALUE.name(), Ty::Quantity),
                optional(MetricV1::SELECTOR.name(), selector()),
                optional(MetricV1::AVERAGE_VALUE.name(), Ty::Quantity),
            ],
        ),
        status(
            "pods",
            vec![
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                always(MetricV1::CURRENT_AVERAGE_VALUE.name(), Ty::Quantity),
                optional(MetricV1::SELECTOR.name(), selector()),
            ],
        ),
        status("resource", [always("name", Ty::String)].into_iter().chain(utilization()).collect()),
        status(
            "containerResource",
            [always("name", Ty::String)]
                .into_iter()
                .chain(utilization())
                .chain([always("container", Ty::String)])
                .collect(),
        ),
        status(
            "external",
            vec![
                always(MetricV1::METRIC_NAME.name(), Ty::String),
                optional(MetricV1::METRIC_SELECTOR.name(), selector()),
                always(MetricV1::CURRENT_VALUE.name(), Ty::Quantity),
                optional(MetricV1::CURRENT_AVERAGE_VALUE.name(), Ty::Quantity),
            ],
        ),
    ]
}

fn reference() -> Ty {
    table("io.k8s.api.autoscaling.v1.CrossVersionObjectReference")
}

fn selector() -> Ty {
    table("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
}

/// Returns the type of a struct of the field tables; a test looks up all names used here.
fn table(name: &str) -> Ty {
    match tables::message(name) {
        Some(message) => Ty::Message(MessageRef::Static(message)),
        None => Ty::Json,
    }
}

fn items(name: &'static str, fields: Vec<Field>) -> Message {
    Message::new("items", vec![nullable(ITEMS, Ty::List(Box::new(message(name, fields))))])
}

fn message(name: &'static str, fields: Vec<Field>) -> Ty {
    Ty::Message(MessageRef::Shared(Message::new(name, fields).into()))
}

fn always(name: &'static str, ty: Ty) -> Field {
    Field { presence: Presence::Always, ..Field::new(name, ty) }
}

fn omitted(name: &'static str, ty: Ty) -> Field {
    Field { presence: Presence::OmitZero, ..Field::new(name, ty) }
}

fn optional(name: &'static str, ty: Ty) -> Field {
    Field::new(name, ty)
}

fn nullable(name: &'static str, ty: Ty) -> Field {
    Field { presence: Presence::AlwaysNull, ..Field::new(name, ty) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_message_types() {
        assert!(matches!(reference(), Ty::Message(_)));
        assert!(matches!(selector(), Ty::Message(_)));
    }
}
