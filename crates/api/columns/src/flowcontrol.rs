//! The flowcontrol.apiserver.k8s.io group.

use std::cmp::Ordering;

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, string, text};
use crate::format::{NONE, condition};
use crate::metadata::{AGE, NAME, created, name, number, present};

pub(crate) const KINDS: &[Kind] =
    &[("FlowSchema", &FLOW_SCHEMA), ("PriorityLevelConfiguration", &PRIORITY_LEVEL_CONFIGURATION)];

definitions!("io.k8s.api.flowcontrol.v1":
    LEVEL_REFERENCE = "PriorityLevelConfigurationReference",
    LEVEL_SPEC = "PriorityLevelConfigurationSpec",
    LIMITED = "LimitedPriorityLevelConfiguration",
    QUEUING = "QueuingConfiguration",
    SCHEMA_SPEC = "FlowSchemaSpec",
);

const FLOW_SCHEMA: Columns = Columns {
    order: Some(in_order_of_matching),
    ..Columns::new(
        &[
            NAME,
            string("PriorityLevel", doc(LEVEL_REFERENCE, "name")),
            string("MatchingPrecedence", doc(SCHEMA_SPEC, "matchingPrecedence")),
            string("DistinguisherMethod", doc(SCHEMA_SPEC, "distinguisherMethod")),
            AGE,
            string("MissingPL", text("references a broken or non-existent PriorityLevelConfiguration")),
        ],
        flow_schema,
    )
};

const PRIORITY_LEVEL_CONFIGURATION: Columns = Columns::new(
    &[
        NAME,
        string("Type", doc(LEVEL_SPEC, "type")),
        string("NominalConcurrencyShares", doc(LIMITED, "nominalConcurrencyShares")),
        string("Queues", doc(QUEUING, "queues")),
        string("HandSize", doc(QUEUING, "handSize")),
        string("QueueLengthLimit", doc(QUEUING, "queueLengthLimit")),
        AGE,
    ],
    priority_level,
);

/// Compares schemas in the order in which the server matches them.
fn in_order_of_matching(a: &Value, b: &Value) -> Ordering {
    let key = |schema| (number(schema, &["spec", "matchingPrecedence"]), name(schema));
    key(a).cmp(&key(b))
}

fn flow_schema(object: &Value, now: Now) -> Cells {
    let method = match present(object, &["spec", "distinguisherMethod"]) {
        true => object.str_at(&["spec", "distinguisherMethod", "type"]),
        false => NONE,
    };
    let dangling = condition(object, &["status", "conditions"], "Dangling");
    cells![
        name(object),
        object.str_at(&["spec", "priorityLevelConfiguration", "name"]),
        number(object, &["spec", "matchingPrecedence"]),
        method,
        created(object, now),
        dangling.map_or("?", |condition| condition.str_at(&["status"])),
    ]
}

fn priority_level(object: &Value, now: Now) -> Cells {
    // Numbers if the level has them, although the columns are strings.
    let number = |path: &[&str], member| match object.at(path).filter(|parent| !parent.is_null()) {
        Some(parent) => Value::Int(number(parent, &[member])),
        None => NONE.into(),
    };
    const LIMITED: &[&str] = &["spec", "limited"];
    const QUEUING: &[&str] = &["spec", "limited", "limitResponse", "queuing"];
    cells![
        name(object),
        object.str_at(&["spec", "type"]),
        number(LIMITED, "nominalConcurrencyShares"),
        number(QUEUING, "queues"),
        number(QUEUING, "handSize"),
        number(QUEUING, "queueLengthLimit"),
        created(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "flowcontrol.apiserver.k8s.io";

    #[test]
    fn flow_schemas() {
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
        assert_eq!(schemas.each_ref().map(name), ["d", "c", "a", "b"]);
    }

    #[test]
    fn priority_levels() {
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
