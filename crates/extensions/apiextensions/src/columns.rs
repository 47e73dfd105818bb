//! The table of a custom resource: its name, and the columns of its definition.

use std::time::SystemTime;

use binnacle_columns::{Now, age};
use binnacle_fields::apiextensions::v1::CustomResourceColumnDefinition as Definition;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_json_path::JsonPath;
use binnacle_meta::{Text, Time};
use binnacle_schema::{Value, json, value};
use binnacle_scheme::{Columns, text_length};
use binnacle_work::{allocate, charge};

/// The columns of one version.
pub(crate) struct CustomColumns {
    definitions: Value,
    columns: Vec<Column>,
}

struct Column {
    /// `integer`, `number`, `boolean`, `string` or `date`.
    ty: Text,
    path: JsonPath,
}

/// The maximum number of bytes of all strings and JSON values in a row: about as many as an object can have.
const MAX_ROW: usize = 4 << 20;
/// The content of a cell whose text would exceed the maximum.
const OMITTED: &str = "<too large>";

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl CustomColumns {
    /// Returns the columns of `additionalPrinterColumns` up to the first with an invalid path, or an age column if
    /// there are none.
    pub(crate) fn new(columns: &[Value]) -> Self {
        let description = |field| binnacle_apimachinery::descriptions::field(OBJECT_META, field).unwrap_or("");
        let age = [value!({
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": (description("creationTimestamp"))
        })];
        let requested = if columns.is_empty() { &age } else { columns };
        let columns: Vec<Column> = requested
            .iter()
            .map(FieldRef::<Definition>::root)
            .map_while(|column| {
                let path = JsonPath::parse(column.at(Definition::JSON_PATH).str()).ok()?;
                Some(Column { ty: column.at(Definition::TYPE).str().into(), path })
            })
            .collect();
        let mut definitions = vec![value!({
            "name": "Name", "type": "string", "format": "name", "description": (description("name")), "priority": 0i64
        })];
        definitions.extend(requested.iter().take(columns.len()).map(|column| {
            let column = FieldRef::<Definition>::root(column);
            let text = |field| column.at(field).str();
            // As in kube-apiserver, the default description contains the path.
            let description = match text(Definition::DESCRIPTION) {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text(Definition::JSON_PATH)),
                words => words.to_owned(),
            };
            value!({
                "name": (text(Definition::NAME)), "type": (text(Definition::TYPE)), "format": (text(Definition::FORMAT)),
                "description": description, "priority": (column.at(Definition::PRIORITY).int_or_zero())
            })
        }));
        Self { definitions: Value::List(definitions), columns }
    }
}

impl Columns for CustomColumns {
    fn definitions(&self) -> Value {
        self.definitions.clone()
    }

    fn cells(&self, object: &Value, now: SystemTime) -> Vec<Value> {
        let mut cells = vec![Value::from(metadata(object).at(ObjectMeta::NAME).str())];
        let mut remaining = MAX_ROW;
        cells.extend(self.columns.iter().map(|column| {
            let found = column.path.find(object).first().copied();
            found.map_or(Value::Null, |value| cell(&column.ty, value, now.into(), &mut remaining))
        }));
        cells
    }
}

/// Returns the JSON of a value, if there is room for it in the row.
fn json_cell(value: &Value, remaining: &mut usize) -> Value {
    let length = text_length(value, *remaining).filter(|length| allocate(*length).is_ok());
    let Some(length) = length.filter(|length| charge(*length as u64 / 16).is_ok()) else { return OMITTED.into() };
    *remaining -= length;
    json::to_string(value).into()
}

/// Formats a value as a cell of a type; null if the types do not match.
fn cell(ty: &str, value: &Value, now: Now, remaining: &mut usize) -> Value {
    match (ty, value) {
        ("integer", Value::Int(n)) => Value::Int(*n),
        ("integer", Value::Float(n)) => Value::Int(*n as i64),
        ("number", Value::Int(n)) => Value::Float(*n as f64),
        ("number", Value::Float(n)) => Value::Float(*n),
        ("boolean", Value::Bool(b)) => Value::Bool(*b),
        ("date", Value::Str(text)) if matches!(text.as_str(), "" | "null") => Value::from("<unknown>"),
        ("date", Value::Str(text)) => match Time::parse(text) {
            Ok(_) => Value::from(age(Some(value), now)),
            Err(_) => Value::from("<invalid>"),
        },
        ("string", Value::Str(text)) => match remaining.checked_sub(text.len()) {
            Some(left) => {
                *remaining = left;
                Value::Str(text.clone())
            }
            None => OMITTED.into(),
        },
        ("string", Value::Null) => Value::from("<no value>"),
        ("string", other) => json_cell(other, remaining),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_text_of_rows() {
        let column = |path: &str| value!({"name": "n", "type": "string", "jsonPath": path});
        let mut columns = vec![column(".spec"); 500];
        columns.extend(vec![column(".spec.text"); 500]);
        let columns = CustomColumns::new(&columns);
        let object = value!({"spec": {"text": ("x".repeat(1 << 20)), "l": [{}, {}]}});
        let cells = columns.cells(&object, SystemTime::now());
        let bytes: usize = cells.iter().filter_map(Value::as_str).map(str::len).sum();
        assert!(bytes < MAX_ROW + 1000 * OMITTED.len(), "{bytes}");
        assert_eq!(cells.iter().filter(|cell| cell.as_str() == Some(OMITTED)).count(), 1000 - 3);
    }

    #[test]
    fn cells_match_column_types() {
        let column = |name: &str, ty: &str| value!({"name": name, "type": ty, "jsonPath": (format!(".spec.{name}"))});
        let columns = CustomColumns::new(&[
            column("i", "integer"),
            column("n", "number"),
            column("b", "boolean"),
            column("s", "string"),
            column("d", "date"),
            column("none", "string"),
        ]);
        let object = value!({"metadata": {"name": "a"}, "spec": {
            "i": 3i64, "n": 1i64, "b": true, "s": {"x": [1i64]}, "d": "yesterday"
        }});
        let want = value!(["a", 3i64, 1.0f64, true, "{\"x\":[1]}", "<invalid>", null]);
        assert_eq!(Value::List(columns.cells(&object, SystemTime::now())), want);
        let invalid = value!({"name": "bad", "type": "string", "jsonPath": ".spec.a["});
        let columns_before = CustomColumns::new(&[column("i", "integer"), invalid, column("s", "string")]);
        assert_eq!(columns_before.definitions().as_list().unwrap().len(), 2);
        assert_eq!(Value::List(columns_before.cells(&object, SystemTime::now())), value!(["a", 3i64]));
        let wrong = value!({"metadata": {"name": "a"}, "spec": {"i": "x", "n": "x", "b": 1i64, "s": 5i64, "d": 1i64}});
        let want = value!(["a", null, null, null, "5", null, null]);
        assert_eq!(Value::List(columns.cells(&wrong, SystemTime::now())), want);
    }
}
