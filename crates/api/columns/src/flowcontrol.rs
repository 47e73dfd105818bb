//! The flowcontrol.apiserver.k8s.io group.

use std::cmp::Ordering;

use binnacle_fields::FieldRef;
use binnacle_fields::flowcontrol::v1::{
    FlowDistinguisherMethod, FlowSchema, FlowSchemaCondition, FlowSchemaSpec as SchemaSpec, FlowSchemaStatus,
    LimitResponse, LimitedPriorityLevelConfiguration as Limited, PriorityLevelConfiguration,
    PriorityLevelConfigurationReference as LevelReference, PriorityLevelConfigurationSpec as LevelSpec,
    QueuingConfiguration as Queuing,
};
use binnacle_fields::types::{Field, Int};
use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, doc, string, text};
use crate::format::{NONE, condition};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] =
    &[("FlowSchema", &FLOW_SCHEMA), ("PriorityLevelConfiguration", &PRIORITY_LEVEL_CONFIGURATION)];

const FLOW_SCHEMA: Columns = Columns {
    order: Some(in_order_of_matching),
    ..Columns::new(
        &[
            NAME,
            string("PriorityLevel", doc(LevelReference::NAME)),
            string("MatchingPrecedence", doc(SchemaSpec::MATCHING_PRECEDENCE)),
            string("DistinguisherMethod", doc(SchemaSpec::DISTINGUISHER_METHOD)),
            AGE,
            string("MissingPL", text("references a broken or non-existent PriorityLevelConfiguration")),
        ],
        |object, now| flow_schema(FieldRef::root(object), now),
    )
};

const PRIORITY_LEVEL_CONFIGURATION: Columns = Columns::new(
    &[
        NAME,
        string("Type", doc(LevelSpec::TYPE)),
        string("NominalConcurrencyShares", doc(Limited::NOMINAL_CONCURRENCY_SHARES)),
        string("Queues", doc(Queuing::QUEUES)),
        string("HandSize", doc(Queuing::HAND_SIZE)),
        string("QueueLengthLimit", doc(Queuing::QUEUE_LENGTH_LIMIT)),
        AGE,
    ],
    |object, now| priority_level(FieldRef::root(object), now),
);

/// Compares schemas in the order in which the server matches them.
fn in_order_of_matching(a: &Value, b: &Value) -> Ordering {
    fn key(schema: &Value) -> (i64, &str) {
        let schema = FieldRef::<FlowSchema>::root(schema);
        (schema.at(FlowSchema::SPEC).at(SchemaSpec::MATCHING_PRECEDENCE).int_or_zero(), name(schema))
    }
    key(a).cmp(&key(b))
}

fn flow_schema(schema: FieldRef<FlowSchema>, now: Now) -> Cells {
    let (spec, status) = (schema.at(FlowSchema::SPEC), schema.at(FlowSchema::STATUS));
    let method = match spec.at(SchemaSpec::DISTINGUISHER_METHOD).set() {
        Some(method) => method.at(FlowDistinguisherMethod::TYPE).str(),
        None => NONE,
    };
    let conditions = status.at(FlowSchemaStatus::CONDITIONS);
    let dangling = condition(&conditions, "Dangling");
    cells![
        name(schema),
        spec.at(SchemaSpec::PRIORITY_LEVEL_CONFIGURATION).at(LevelReference::NAME).str(),
        spec.at(SchemaSpec::MATCHING_PRECEDENCE).int_or_zero(),
        method,
        created(schema, now),
        dangling.map_or("?", |condition| condition.at(FlowSchemaCondition::STATUS).str()),
    ]
}

fn priority_level(level: FieldRef<PriorityLevelConfiguration>, now: Now) -> Cells {
    let spec = level.at(PriorityLevelConfiguration::SPEC);
    let limited = spec.at(LevelSpec::LIMITED);
    let response = limited.at(Limited::LIMIT_RESPONSE);
    let queuing = response.at(LimitResponse::QUEUING);
    cells![
        name(level),
        spec.at(LevelSpec::TYPE).str(),
        number(limited, Limited::NOMINAL_CONCURRENCY_SHARES),
        number(queuing, Queuing::QUEUES),
        number(queuing, Queuing::HAND_SIZE),
        number(queuing, Queuing::QUEUE_LENGTH_LIMIT),
        created(level, now),
    ]
}

/// Returns a number if the level has it, although the columns are strings.
fn number<M>(parent: FieldRef<M>, field: Field<M, Int>) -> Value {
    if parent.is_set() { Value::Int(parent.at(field).int_or_zero()) } else { NONE.into() }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "flowcontrol.apiserver.k8s.io";

    #[test]
    fn prints_flow_schemas_in_matching_order() {
        let cases = [
            (value!({}), value!(["", "", 0i64, "<none>", "<unknown>", "?"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {
                        "priorityLevelConfiguration": {"name": "p"},
                        "matchingPrecedence": 900i64,
                        "distinguisherMethod": {"type": "ByUser"},
                    },
                    "status": {"conditions": [{"type": "Dangling", "status": "True"}]},
                }),
                value!(["a", "p", 900i64, "ByUser", "<unknown>", "True"]),
            ),
        ];
        check_cells(GROUP, "FlowSchema", cases);

        let schema = |name: &str, precedence: i64| value!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
        let mut schemas = [schema("c", 9), schema("b", 10), schema("a", 10), schema("d", 1)];
        schemas.sort_by(in_order_of_matching);
        assert_eq!(schemas.each_ref().map(|schema| name(FieldRef::<FlowSchema>::root(schema))), ["d", "c", "a", "b"]);
    }

    #[test]
    fn prints_priority_levels() {
        let cases = [
            (value!({}), value!(["", "", "<none>", "<none>", "<none>", "<none>", "<unknown>"])),
            (
                value!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5i64, "limitResponse": {"type": "Reject"}}}}),
                value!(["", "Limited", 5i64, "<none>", "<none>", "<none>", "<unknown>"]),
            ),
            (
                value!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": {
                    "nominalConcurrencyShares": 0i64,
                    "limitResponse": {"queuing": {"queues": 64i64, "handSize": 6i64, "queueLengthLimit": 50i64}},
                }}}),
                value!(["a", "Limited", 0i64, 64i64, 6i64, 50i64, "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "PriorityLevelConfiguration", cases);
    }
}
