//! The environment for one kind of expressions: variables, types, functions.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::Text;

use crate::ast::{Expr, ExprKind, operators};
use crate::check::{self, Checked, Reference};
use crate::cost::{self, Estimate};
use crate::declared::{DeclType, ObjectType, Shape};
use crate::error::Error;
use crate::eval::Activation;
use crate::functions::{Function, FunctionSet};
use crate::parser::{self, Features};
use crate::plan::Program;
use crate::source::{CompileErrors, Issues, Location, Source};
use crate::types::Type;
use crate::validate;

/// The Kubernetes version whose libraries an expression can use: the version with which new expressions must be
/// compatible, or [`Version::STORED`] for stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u16);

impl Version {
    /// All features of this server.
    pub const STORED: Self = Self(u16::MAX);
    /// The features that the previous version has too.
    pub const COMPATIBLE: Self = Self(35);

    /// Returns version 1 with this minor version.
    pub const fn minor(minor: u16) -> Self {
        Self(minor)
    }

    pub(crate) fn at_least(self, minor: u16) -> bool {
        self.0 >= minor
    }

    /// Maps all versions before the first change, and all after the last one, to a single version each.
    pub(crate) fn rounded(self) -> Self {
        Self(self.0.clamp(26, 38))
    }
}

/// Variables, types and functions that expressions can use.
#[derive(Clone, Debug)]
pub struct Environment {
    version: Version,
    variables: Vec<Variable>,
    objects: HashMap<Text, Arc<ObjectType>>,
    functions: &'static FunctionSet,
    /// Types that expressions can create: `Object{...}`, `JSONPatch{...}`.
    constructors: Constructors,
    bind: bool,
}

#[derive(Clone, Debug)]
struct Variable {
    name: Text,
    ty: Type,
    /// The type of its data, if known in detail.
    data: Option<Arc<DeclType>>,
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

    /// Declares a variable that holds data of a type, and all object types within it.
    pub fn with_data(self, name: impl Into<Text>, ty: &DeclType) -> Self {
        let mut env = self.with_types_of(ty);
        env.declare(Variable { name: name.into(), ty: ty.ty(), data: Some(Arc::new(ty.clone())) });
        env
    }

    fn declare(&mut self, variable: Variable) {
        match self.variables.iter_mut().find(|known| known.name == variable.name) {
            Some(known) => *known = variable,
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
                let known = self.objects.insert(object.name.clone(), object.clone()).is_some();
                object.fields.values().filter(|_| !known).for_each(|field| self.collect_types(&field.ty));
            }
            _ => {}
        }
    }

    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// All errors of the expression, in kube-apiserver's words.
    pub fn compile(&self, expression: &str) -> Result<Ast, CompileErrors> {
        let source = Source::new(expression);
        let mut issues = Issues::default();
        let checked = self.check(&source, &mut issues);
        match checked {
            Some(checked) if issues.is_empty() => Ok(Ast { checked, variables: self.variables.clone() }),
            _ => Err(CompileErrors::new(&source, issues)),
        }
    }

    fn check(&self, source: &Source, issues: &mut Issues) -> Option<Checked> {
        let features = Features {
            optionals: self.version.at_least(28),
            two_variables: self.version.at_least(32),
            lists: self.version.at_least(34),
            bind: self.bind,
            no_macros: false,
        };
        let parsed = charged(source.chars.len() as u64 * STEPS_PER_CHARACTER, issues)
            .and_then(|()| parser::parse(source, features, issues))?;
        charged(parsed.positions.len() as u64 * STEPS_PER_NODE, issues)?;
        let checked = check::check(self, source, parsed.expr, parsed.positions, issues)?;
        if self.version.at_least(29) && issues.is_empty() {
            validate::literals(&checked, source, issues);
        }
        Some(checked)
    }

    /// Compiles an expression into a program.
    ///
    /// # Errors
    /// See [`Environment::compile`] and [`Ast::program`]; the text is Go's, without its prefix `compilation failed: `.
    pub fn program(&self, expression: &str) -> Result<Program, String> {
        let ast = self.compile(expression).map_err(|errors| errors.to_string())?;
        ast.program().map_err(|error| error.to_string())
    }

    /// Returns an empty activation for the variables.
    pub fn activation<'a>(&self) -> Activation<'a> {
        Activation::for_variables(self.variables.len())
    }

    /// Returns the number of a variable in activations.
    pub fn variable_index(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|known| known.name == name)
    }

    // === Look-ups of the checker ===

    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        let index = self.variable_index(name)?;
        Some((index, &self.variables[index].ty))
    }

    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        // Only expressions that can create patch operations need to write paths.
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

/// The steps of parsing a character, and of checking, estimating and planning a node.
const STEPS_PER_CHARACTER: u64 = 10;
const STEPS_PER_NODE: u64 = 100;

/// Charges work on an expression. An exhausted budget is an error of the expression.
fn charged(steps: u64, issues: &mut Issues) -> Option<()> {
    binnacle_work::charge(steps).map_err(|exceeded| issues.add(Location::NONE, exceeded.to_string())).ok()
}

/// A checked expression.
#[derive(Debug)]
pub struct Ast {
    pub(crate) checked: Checked,
    variables: Vec<Variable>,
}

impl Ast {
    /// Returns the type of the result.
    pub fn output_type(&self) -> &Type {
        self.checked.ty(self.checked.expr.id)
    }

    /// Estimates the minimum and maximum cost of an evaluation, from the declared sizes of the variables' data.
    pub fn estimate_cost(&self) -> Estimate {
        let data = |name: &str| {
            let variable = self.variables.iter().find(|variable| variable.name == name)?;
            variable.data.as_deref()
        };
        cost::estimate(&self.checked, &data)
    }

    /// Like [`Ast::estimate_cost`], with the same data for every name: kube-apiserver estimates rules of custom
    /// resources this way, as `self` and `oldSelf` have the same type, and does not distinguish names of types from
    /// them.
    pub fn estimate_cost_of(&self, data: &DeclType) -> Estimate {
        cost::estimate(&self.checked, &|_| Some(data))
    }

    /// Returns true if the expression uses a variable.
    pub fn uses_variable(&self, name: &str) -> bool {
        let Some(wanted) = self.variables.iter().position(|variable| variable.name == name) else { return false };
        self.checked.references().any(|reference| matches!(reference, Reference::Variable(index) if *index == wanted))
    }

    /// Returns true if the expression selects a field of this name anywhere.
    pub fn mentions_field(&self, name: &str) -> bool {
        let mut found = false;
        self.checked.expr.visit(&mut |expr| match &expr.kind {
            ExprKind::Select(select) => found |= select.field == name,
            ExprKind::Call(call) if call.function == operators::OPT_SELECT => {
                found |= call.args.last().and_then(Expr::as_string_literal).is_some_and(|field| field == name);
            }
            _ => {}
        });
        found
    }

    /// Returns true if the expression selects a field of a variable: `claims.email`, `has(claims.email)`,
    /// `claims.?email`.
    pub fn selects(&self, variable: &str, field: &str) -> bool {
        let is_variable = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name == variable);
        let mut found = false;
        self.checked.expr.visit(&mut |expr| match &expr.kind {
            ExprKind::Select(select) => found |= select.field == field && is_variable(&select.operand),
            ExprKind::Call(call) if call.function == operators::OPT_SELECT => {
                if let [operand, name] = call.args.as_slice() {
                    found |= is_variable(operand) && name.as_string_literal().is_some_and(|name| name == field);
                }
            }
            _ => {}
        });
        found
    }

    /// Compiles the expression into a program.
    ///
    /// # Errors
    /// Fails if a constant part has no value, such as `int("x")`.
    pub fn program(&self) -> Result<Program, Error> {
        Program::new(&self.checked, true)
    }
}
