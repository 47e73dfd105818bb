//! The columns of a kind's table: their definitions, and the function that computes a row's cells.

use std::cmp::Ordering;
use std::time::SystemTime;

use binnacle_fields::types::{Field, Message};
use binnacle_schema::{Value, value};

use crate::Now;

/// The cells of an object's row, one for each column.
pub type Cells = Vec<Value>;

/// The table of a kind.
#[derive(Debug)]
pub struct Columns {
    pub definitions: &'static [ColumnDefinition],
    pub cells: fn(&Value, Now) -> Cells,
    /// The conditions of a row.
    pub conditions: fn(&Value) -> &'static [RowCondition],
    /// The order of a list's rows, if it differs from the order of the list.
    pub order: Option<fn(&Value, &Value) -> Ordering>,
    /// Annotations that only the versioned form of an object has: tables and partial objects, which Go derives from its
    /// internal form, lack them.
    pub unseen_annotations: &'static [&'static str],
    /// True if a table without rows has null in their place.
    pub null_rows: bool,
}

/// A `TableColumnDefinition` of meta.k8s.io.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDefinition {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`. Cells of some `string` columns are numbers, as in kube-apiserver.
    pub type_: &'static str,
    pub format: &'static str,
    pub description: Description,
    /// 0 for columns of the default output, 1 for those that only `-o wide` shows.
    pub priority: i32,
}

/// The source of a column's description.
#[derive(Clone, Copy, Debug)]
pub enum Description {
    Literal(&'static str),
    /// The description of a field of a published type.
    Field {
        definition: &'static str,
        field: &'static str,
    },
    /// The same without its last part, which an older version of the type lacked: the column still has the old text.
    FieldWithout {
        definition: &'static str,
        field: &'static str,
        ending: &'static str,
    },
}

/// A `TableRowCondition` of meta.k8s.io; its status is always `True`.
#[derive(Debug, PartialEq, Eq)]
pub struct RowCondition {
    pub type_: &'static str,
    pub reason: &'static str,
    pub message: &'static str,
}

/// The name of a kind, and its table.
pub(crate) type Kind = (&'static str, &'static Columns);

impl Columns {
    pub(crate) const fn new(definitions: &'static [ColumnDefinition], cells: fn(&Value, Now) -> Cells) -> Self {
        Self { definitions, cells, conditions: |_| &[], order: None, unseen_annotations: &[], null_rows: false }
    }

    /// Returns the `columnDefinitions` of a `Table`.
    pub fn definitions_value(&self) -> Value {
        Value::List(self.definitions.iter().map(|definition| definition.to_value()).collect())
    }
}

impl binnacle_scheme::Columns for Columns {
    fn definitions(&self) -> Value {
        self.definitions_value()
    }

    fn cells(&self, object: &Value, now: SystemTime) -> Cells {
        (self.cells)(object, now.into())
    }

    fn conditions(&self, object: &Value) -> Vec<Value> {
        (self.conditions)(object).iter().map(RowCondition::to_value).collect()
    }

    fn order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        self.order
    }

    fn unseen_annotations(&self) -> &[&str] {
        self.unseen_annotations
    }

    fn has_null_rows(&self) -> bool {
        self.null_rows
    }
}

impl ColumnDefinition {
    pub(crate) const fn new(name: &'static str, type_: &'static str, description: Description) -> Self {
        Self { name, type_, format: "", description, priority: 0 }
    }

    /// Marks a column as part of the wide output only.
    pub(crate) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    pub(crate) const fn format(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }

    fn to_value(self) -> Value {
        value!({
            "name": (self.name),
            "type": (self.type_),
            "format": (self.format),
            "description": (self.description.text()),
            "priority": (i64::from(self.priority)),
        })
    }
}

impl Description {
    /// Returns the description; empty if the published type has none.
    pub fn text(&self) -> &'static str {
        match *self {
            Self::Literal(text) => text,
            Self::Field { definition, field } => {
                binnacle_apimachinery::descriptions::field(definition, field).unwrap_or("")
            }
            Self::FieldWithout { definition, field, ending } => {
                let text = binnacle_apimachinery::descriptions::field(definition, field).unwrap_or("");
                text.strip_suffix(ending).unwrap_or(text)
            }
        }
    }
}

impl RowCondition {
    pub fn to_value(&self) -> Value {
        value!({ "type": (self.type_), "status": "True", "reason": (self.reason), "message": (self.message) })
    }
}

pub(crate) const fn string(name: &'static str, description: Description) -> ColumnDefinition {
    ColumnDefinition::new(name, "string", description)
}

pub(crate) const fn integer(name: &'static str, description: Description) -> ColumnDefinition {
    ColumnDefinition::new(name, "integer", description)
}

pub(crate) const fn boolean(name: &'static str, description: Description) -> ColumnDefinition {
    ColumnDefinition::new(name, "boolean", description)
}

pub(crate) const fn text(sentence: &'static str) -> Description {
    Description::Literal(sentence)
}

/// Returns the description of a field: `doc(PodSpec::NODE_NAME)`.
pub(crate) const fn doc<M: Message, T>(field: Field<M, T>) -> Description {
    Description::Field { definition: M::DEFINITION, field: field.name() }
}

/// A row's cells: `cells![name(object), 3, "text"]`.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(binnacle_schema::Value::from($cell)),*] };
}

pub(crate) use cells;
