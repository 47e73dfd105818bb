//! Changes that mutations evaluate to: an apply configuration, which is merged into the object, or a JSON patch.

use binnacle_cel::{Val, go_double};
use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_patch::apply::merge_unowned;
use binnacle_patch::json_patch::Patch;
use binnacle_schema::{Object, Value};

use super::schema::Schema;

/// A change to an object.
#[derive(Debug)]
pub(crate) enum Change {
    Configuration(Value),
    JsonPatch(Vec<Object>),
}

/// The failure of a mutation.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The failure policy applies.
    Message(String),
    /// The request is denied with this status.
    Status(Status),
}

/// The largest integer that CEL converts to a JSON number.
const MAX_SAFE: i64 = (1 << 53) - 1;

impl Failure {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Message(message) => message,
            Self::Status(status) => status.message(),
        }
    }
}

impl Change {
    /// Returns the change of an `Object{...}`.
    pub(crate) fn configuration(value: &Val<'_>) -> Result<Self, Failure> {
        check_names(value, "Object")?;
        let tree = value.to_tree().map_err(|error| Failure::Message(format!("invalid return type: {error}")))?;
        Ok(Self::Configuration(tree))
    }

    /// Returns the change of a `[JSONPatch{...}, ...]`.
    pub(crate) fn json_patch(value: &Val<'_>) -> Result<Self, Failure> {
        let Val::List(list) = value else {
            let why = "type mismatch: JSONPatchType.expression should evaluate to array";
            return Err(Failure::Message(why.to_owned()));
        };
        let item = |item: Result<Val<'_>, binnacle_cel::Error>| {
            operation(&item.map_err(|error| Failure::Message(error.to_string()))?)
        };
        Ok(Self::JsonPatch(list.iter().map(item).collect::<Result<_, _>>()?))
    }

    /// Returns the changed object, complete and in the same version.
    pub(crate) fn apply(self, object: &Value, schema: &Schema<'_>) -> Result<Value, Failure> {
        match self {
            Self::Configuration(mut configuration) => {
                let (object_type, mut typed) = (FieldRef::<AnyKind>::root(object), FieldMut::root(&mut configuration));
                for field in [AnyKind::API_VERSION, AnyKind::KIND] {
                    typed.set(field, object_type.at(field).str());
                }
                let merged = merge_unowned(schema.message, object, &configuration)
                    .map_err(|why| Failure::Message(format!("error applying patch: {why}")))?;
                schema.decode(merged).map_err(Failure::Message)
            }
            Self::JsonPatch(operations) => {
                let patched = match Patch::of(&operations).apply_with_reason(object.clone()) {
                    Ok(patched) => patched,
                    // A failed `test` operation skips the patch and is not an error.
                    Err(why) if why.ends_with(": test failed") => return Ok(object.clone()),
                    Err(why) => return Err(Failure::Message(format!("JSON Patch: {why}"))),
                };
                schema.decode_strictly(patched).map_err(|why| Failure::Status(Status::internal(why)))
            }
        }
    }
}

/// Checks that the type name of each nested object is the path of its field.
fn check_names(value: &Val<'_>, root: &str) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    mismatches(value, root, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Message(format!("type mismatch: {}", wrong.join("\n")))) }
}

fn mismatches(value: &Val<'_>, path: &str, wrong: &mut Vec<String>) {
    // Values may share parts, so that there can be far more paths than values. An exhausted budget fails the request.
    if binnacle_work::charge(1).is_err() {
        return;
    }
    match value {
        Val::Message(message) => {
            if message.name != path {
                if binnacle_work::allocate(256 + message.name.len() + path.len()).is_err() {
                    return;
                }
                wrong.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    message.name.as_str()
                ));
            }
            for (name, field) in &message.fields {
                binnacle_work::pace((path.len() + name.len()) as u64 / 16);
                mismatches(field, &format!("{path}.{name}"), wrong);
            }
        }
        Val::List(list) => list.iter().flatten().for_each(|item| mismatches(&item, path, wrong)),
        Val::Map(map) => {
            for key in map.keys() {
                if let Ok(Some(value)) = map.find(&key) {
                    mismatches(&value, path, wrong);
                }
            }
        }
        _ => {}
    }
}

/// Converts an operation of a JSON patch.
fn operation(value: &Val<'_>) -> Result<Object, Failure> {
    let Val::Message(message) = value else {
        let why = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
        return Err(Failure::Message(why.to_owned()));
    };
    let mut operation = Object::new();
    for member in ["op", "path"] {
        operation.insert(member, "");
    }
    for (name, value) in &message.fields {
        match name.as_str() {
            "value" => {
                if let Val::Message(message) = value {
                    check_names(value, &message.name)?;
                }
                let tree = value.to_tree().map_err(|error| {
                    let text = "JSONPath valueExpression evaluated to a type that could not marshal to JSON";
                    Failure::Message(format!("{text}: {error}"))
                })?;
                operation.insert("value", as_json(tree));
            }
            // An empty `from` means none, not an empty path.
            "from" if value.as_str().is_none_or(str::is_empty) => {}
            name => {
                operation.insert(name, value.as_str().unwrap_or_default());
            }
        }
    }
    Ok(operation)
}

/// Converts numbers like CEL's conversion to JSON: integers that doubles cannot represent become strings, and doubles
/// without a fraction become integers.
fn as_json(value: Value) -> Value {
    match value {
        Value::Int(n) if !(-MAX_SAFE..=MAX_SAFE).contains(&n) => Value::from(n.to_string()),
        Value::Float(n) if n.fract() == 0.0 && n.abs() <= MAX_SAFE as f64 => Value::Int(n as i64),
        Value::Float(n) if !n.is_finite() => Value::from(match go_double(n).as_str() {
            "+Inf" => "Infinity".to_owned(),
            "-Inf" => "-Infinity".to_owned(),
            other => other.to_owned(),
        }),
        Value::List(items) => Value::List(items.into_iter().map(as_json).collect()),
        Value::Object(object) => {
            Value::Object(object.into_iter().map(|(name, value)| (name, as_json(value))).collect())
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_admission_matching::expressions::Inputs;
    use binnacle_schema::{json, value};

    use crate::evaluators::Mutating;
    use crate::policy::Evaluator;

    use super::*;

    /// Returns the change of a mutation as JSON, or the message of its failure.
    fn change(kind: &str, expression: &str) -> String {
        let member = if kind == "JSONPatch" { "jsonPatch" } else { "applyConfiguration" };
        let mut mutation = Object::new();
        mutation.insert("patchType", kind);
        mutation.insert(member, value!({"expression": expression}));
        let mutation = Value::Object(mutation);
        let policy = Mutating::compile("p", binnacle_fields::FieldRef::root(&value!({"mutations": [mutation]})));
        let (request, object) = (value!({}), value!({"data": {"k": "v"}}));
        let inputs = Inputs {
            request: &request,
            object: Some(&object),
            old_object: None,
            params: None,
            namespace: None,
            checks: None,
        };
        match policy.mutations[0].evaluate(&policy.variables, &inputs) {
            Ok(Change::Configuration(tree)) => json::to_string(&tree),
            Ok(Change::JsonPatch(list)) => json::to_string(&Value::List(list.into_iter().map(Value::Object).collect())),
            Err(failure) => failure.message().to_owned(),
        }
    }

    #[test]
    fn evaluates_apply_configurations() {
        for (expression, want) in [
            ("Object{data: {'a': object.data.k}, spec: Object.spec{n: 1}}", r#"{"data":{"a":"v"},"spec":{"n":1}}"#),
            ("Object{list: [Object.list{name: 'x'}]}", r#"{"list":[{"name":"x"}]}"#),
            (
                "Object{spec: Object.other{n: 1}}",
                "type mismatch: unexpected type name \"Object.other\", expected \"Object.spec\", which matches field name \
                 path from root Object type",
            ),
            (
                "Object{data: object.none}",
                "expression 'Object{data: object.none}' resulted in error: no such key: none",
            ),
            ("[JSONPatch{}]", "must evaluate to Object but got list(JSONPatch)"),
        ] {
            assert_eq!(change("ApplyConfiguration", expression), want, "{expression}");
        }
    }

    #[test]
    fn evaluates_json_patches() {
        for (expression, want) in [
            (
                "[JSONPatch{op: 'add', path: '/a', value: {'n': 2.0}}, JSONPatch{op: 'remove', path: '/b'}]",
                r#"[{"op":"add","path":"/a","value":{"n":2}},{"op":"remove","path":"/b"}]"#,
            ),
            ("[JSONPatch{op: 'copy', from: '/a', path: '/b'}]", r#"[{"op":"copy","path":"/b","from":"/a"}]"#),
            (
                "[JSONPatch{op: 'add', path: '/a', value: 9007199254740993}]",
                r#"[{"op":"add","path":"/a","value":"9007199254740993"}]"#,
            ),
            (
                "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y'), value: null}]",
                r#"[{"op":"add","path":"/a/x~1y","value":null}]"#,
            ),
            ("[]", "must evaluate to list(JSONPatch) but got list(dyn)"),
        ] {
            assert_eq!(change("JSONPatch", expression), want, "{expression}");
        }
    }
}
