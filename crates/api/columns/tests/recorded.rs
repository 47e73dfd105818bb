//! The recorded tables of kube-apiserver, from `../shared` (or `BINNACLE_SHARED`).

use std::collections::BTreeSet;

use binnacle_columns::{Columns, Now, table_for};
use binnacle_features::Features;
use binnacle_kinds::{conversion, strategy, tables};
use binnacle_schema::{Value, canonical, decode, defaults, value};
use binnacle_scheme::StrategyContext;
use binnacle_test_requirements::shared;

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn tables_match_recorded_ones() {
    let cases = cases("builtin-table.json");
    let mut kinds = BTreeSet::new();
    for case in cases.list_at(&["cases"]) {
        for (body, table) in tables(case) {
            let (group, kind) = group_and_kind(body);
            let columns = table_for(group, kind);
            check_definitions(columns, table, &format!("{group} {kind}"));
            for row in table.list_at(&["rows"]) {
                check_row(columns, body, row.list_at(&["cells"]), &format!("{group} {kind}"));
            }
            kinds.insert((group, kind));
        }
    }
    assert!(kinds.len() >= 35, "only {kinds:?}");
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn config_map_tables_match_recorded_lists_and_watches() {
    let mut checked = 0;
    for name in ["lists.json", "watch.json"] {
        let cases = cases(name);
        let mut found = Vec::new();
        collect_tables(&cases, &mut found);
        for table in found {
            let columns = table_for("", "ConfigMap");
            // Only the first event of a watch has headers.
            if !table.list_at(&["columnDefinitions"]).is_empty() {
                check_definitions(columns, table, name);
            }
            for row in table.list_at(&["rows"]) {
                let cells = row.list_at(&["cells"]);
                assert_eq!(cells.len(), columns.definitions.len(), "{name}");
                if cells[0].as_str() == Some("") {
                    let bookmark = row.get("object").expect("a row has its object");
                    assert_eq!((columns.cells)(bookmark, now()), cells, "{name}: a bookmark");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 3);
}

fn check_definitions(columns: &Columns, table: &Value, what: &str) {
    let got = columns.definitions_value();
    let want = table.list_at(&["columnDefinitions"]);
    let got = got.as_list().expect("definitions are a list");
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got, want, "{what}");
    }
}

fn check_row(columns: &Columns, body: &Value, want: &[Value], what: &str) {
    let mut object = stored(body);
    object.make_at(&["metadata"]).insert("creationTimestamp", CREATED);
    let got = (columns.cells)(&object, now());
    assert_eq!(got.len(), want.len(), "{what}: {got:?}");
    for (got, want) in got.iter().zip(want) {
        match want.as_str() {
            Some("<age>") => {
                let age = got.as_str().expect("an age is a text");
                let (number, unit) = age.split_at(age.len() - 1);
                assert!(number.starts_with(|c: char| c.is_ascii_digit()) && "smhdy".contains(unit), "{what}: {age}");
            }
            Some("<time>") => assert_eq!(got.as_str(), Some(CREATED), "{what}"),
            // A placeholder matches a random value of the server; here it is the value in `stored`.
            Some(text) => {
                let want = text.replace("<uid:1>", UID).replace("<ip:1>", CLUSTER_IP);
                assert_eq!(got.as_str(), Some(want.as_str()), "{what}");
            }
            None => assert_eq!(got, want, "{what}"),
        }
    }
}

const CREATED: &str = "2024-03-10T11:00:00Z";
const UID: &str = "00000000-0000-4000-8000-000000000001";
const CLUSTER_IP: &str = "10.0.0.1";

fn now() -> Now {
    Now::from_unix(1_710_072_000, 0)
}

/// Returns the object that the server stores for the body of a case: with its kind's defaults, and with what the
/// allocators and controllers of the server write.
fn stored(body: &Value) -> Value {
    let api_version = body.str_at(&["apiVersion"]);
    let (group, kind) = group_and_kind(body);
    let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
    let message = tables::kind(group, version, kind).expect("the kind is built in");
    let mut object = decode::value(body.clone(), message).expect("the reference took it").value;
    object.make_at(&["metadata"]).insert("uid", UID);
    let (strategy, features) = (strategy(group, kind), Features::default());
    let set_defaults = |object: &mut Value| {
        defaults::apply_constants(object, message);
        strategy.set_defaults(version, object);
    };
    set_defaults(&mut object);
    let context = StrategyContext { features: &features, now: 0, namespace: "ns", api_version, dry_run: false };
    strategy.prepare_for_create(&context, &mut object);
    // Again when it is read: some kinds have defaults in the status, which a client cannot set.
    set_defaults(&mut object);
    let added = match kind {
        "APIService" => value!({"status": {"conditions": [
            {"type": "Available", "status": "False", "reason": "ServiceNotFound"},
        ]}}),
        "FlowSchema" => value!({"status": {"conditions": [{"type": "Dangling", "status": "False"}]}}),
        "Service" => value!({"spec": {"clusterIPs": [CLUSTER_IP]}}),
        _ => value!({}),
    };
    merge(&mut object, added);
    canonical::canonicalize(&mut object, message);
    if let Some((to_stored, _)) = conversion(group, version, kind) {
        to_stored(&mut object);
    }
    object
}

/// Adds missing members.
fn merge(object: &mut Value, added: Value) {
    let Value::Object(added) = added else { return };
    for (name, value) in added {
        match object.make_object().get_mut(&name) {
            Some(old @ Value::Object(_)) => merge(old, value),
            Some(_) => {}
            None => {
                object.make_object().insert(name, value);
            }
        }
    }
}

/// Returns the tables that a case expects, each with the body of its object.
fn tables(case: &Value) -> Vec<(&Value, &Value)> {
    let steps = case.list_at(&["steps"]);
    let mut posted = steps.iter().filter(|step| step.str_at(&["do"]) == "POST").filter_map(|step| step.get("body"));
    // A case that posts several objects tests the last one.
    let Some(body) = posted.next_back() else { return Vec::new() };
    let bodies = steps.iter().filter_map(|step| step.at(&["expect", "body"]));
    bodies.filter(|body| body.str_at(&["kind"]) == "Table").map(|table| (body, table)).collect()
}

fn collect_tables<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(object) if value.str_at(&["kind"]) == "Table" && object.contains("columnDefinitions") => {
            found.push(value);
        }
        Value::Object(object) => object.values().for_each(|member| collect_tables(member, found)),
        Value::List(items) => items.iter().for_each(|item| collect_tables(item, found)),
        _ => {}
    }
}

fn group_and_kind(body: &Value) -> (&str, &str) {
    let group = body.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    (group, body.str_at(&["kind"]))
}

fn cases(name: &str) -> Value {
    let text = std::fs::read_to_string(shared("conformance/cases").join(name)).expect("the area is recorded");
    from_json(serde_json::from_str(&text).expect("recorded cases are JSON"))
}

fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(b) => b.into(),
        serde_json::Value::Number(n) => n.as_i64().map_or_else(|| n.as_f64().unwrap_or(f64::NAN).into(), Value::from),
        serde_json::Value::String(text) => text.into(),
        serde_json::Value::Array(items) => Value::List(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, from_json(value))).collect())
        }
    }
}
