//! The environment of expressions: variables, types and functions.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::Text;

use crate::decl_type::{DeclType, ObjectType, Shape};
use crate::functions::Function;
use crate::library::FunctionSet;
use crate::types::Type;
use crate::version::Version;

/// Variables, types and functions that expressions can use.
#[derive(Clone, Debug)]
pub struct Environment {
    pub(crate) version: Version,
    pub(crate) variables: Vec<Variable>,
    objects: HashMap<Text, Arc<ObjectType>>,
    functions: &'static FunctionSet,
    /// Types that expressions can create: `Object{...}`, `JSONPatch{...}`.
    constructors: Constructors,
    pub(crate) bind: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: Text,
    ty: Type,
    /// The detailed type of its data, if declared.
    pub(crate) data: Option<Arc<DeclType>>,
}

/// The messages that expressions can create.
#[derive(Clone, Copy, Debug, Default)]
struct Constructors {
    objects: bool,
    json_patch: bool,
}

impl Environment {
    pub fn new(version: Version) -> Self {
        Self {
            version,
            variables: Vec::new(),
            objects: HashMap::new(),
            functions: FunctionSet::of(version),
            constructors: Constructors::default(),
            bind: false,
        }
    }

    /// Declares a variable. A dotted name has priority over members of a variable with the first part as its name.
    pub fn with_variable(mut self, name: impl Into<Text>, ty: Type) -> Self {
        let name = name.into();
        self.declare(Variable { name, ty, data: None });
        self
    }

    /// Declares a variable with data of a type, and all object types within it.
    pub fn with_data(self, name: impl Into<Text>, ty: &DeclType) -> Self {
        let mut env = self.with_types_of(ty);
        env.declare(Variable { name: name.into(), ty: ty.ty(), data: Some(Arc::new(ty.clone())) });
        env
    }

    fn declare(&mut self, variable: Variable) {
        match self.variables.iter_mut().find(|existing| existing.name == variable.name) {
            Some(existing) => *existing = variable,
            None => self.variables.push(variable),
        }
    }

    /// Declares the object types within a type.
    pub fn with_types_of(mut self, ty: &DeclType) -> Self {
        self.collect_types(ty);
        self
    }

    /// Lets expressions create objects: `Object{spec: Object.spec{replicas: 1}}`. Only the path is checked.
    pub fn with_object_construction(mut self) -> Self {
        self.constructors.objects = true;
        self
    }

    /// Lets expressions bind names to values: `cel.bind(x, value, x + x)`.
    pub fn with_bind(mut self) -> Self {
        self.bind = true;
        self
    }

    /// Lets expressions create operations of a JSON patch: `JSONPatch{op: "add", path: "/x", value: 1}`.
    pub fn with_json_patch(mut self) -> Self {
        self.constructors.json_patch = true;
        self
    }

    fn collect_types(&mut self, ty: &DeclType) {
        match &ty.shape {
            Shape::List { element, .. } => self.collect_types(element),
            Shape::Map { value, .. } => self.collect_types(value),
            Shape::Object(object) => {
                let existing = self.objects.insert(object.name.clone(), object.clone()).is_some();
                object.fields.values().filter(|_| !existing).for_each(|field| self.collect_types(&field.ty));
            }
            _ => {}
        }
    }

    /// Returns the number of a variable in activations.
    pub fn variable_index(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|existing| existing.name == name)
    }

    // === Look-ups of the checker ===

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        let index = self.variable_index(name)?;
        Some((index, &self.variables[index].ty))
    }

    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        // Only expressions that can create patch operations need to escape paths.
        self.functions.get(name).filter(|_| name != "jsonpatch.escapeKey" || self.constructors.json_patch)
    }

    /// Returns the type of a name.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "int" => Type::Int,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "string" => Type::String,
            "type" => Type::Type(None),
            "uint" => Type::Uint,
            crate::types::OPTIONAL if self.version.at_least(28) => Type::optional(Type::Dyn),
            name if self.objects.contains_key(name) || self.constructs(name) => Type::object(name),
            name if self.functions.types.contains(name) => Type::opaque(name),
            _ => return None,
        })
    }

    /// Returns the type of a field of an object type; the outer `None` means that the object type does not exist.
    pub(crate) fn field_of(&self, object: &str, field: &str) -> Option<Option<Type>> {
        if let Some(object) = self.objects.get(object) {
            let found = if self.version.at_least(31) { object.field_or_keyword(field) } else { object.field(field) };
            return Some(found.map(|field| field.ty.ty()));
        }
        if !self.constructs(object) {
            return None;
        }
        Some(match (object, field) {
            ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
            ("JSONPatch", "value") => Some(Type::Dyn),
            ("JSONPatch", _) => None,
            _ => Some(Type::Dyn),
        })
    }

    fn constructs(&self, name: &str) -> bool {
        let object = name == "Object" || name.starts_with("Object.");
        (self.constructors.objects && object) || (self.constructors.json_patch && name == "JSONPatch")
    }
}
