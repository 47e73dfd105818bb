//! CEL expressions in objects: the environments for admission and for device selectors, and compilation errors.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use std::sync::Arc;

use binnacle_cel::{
    DeclField, DeclType, Environment, ObjectType, Program, Shape, Type, Version, authorizer_type, resource_check_type,
};
use binnacle_meta::{FieldError, FieldErrors, Location, Text};
use binnacle_schema::Value;

/// The variables and types that expressions of a policy or webhook may use besides the objects of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OptionalVariables {
    /// `params`
    pub params: bool,
    /// `authorizer`
    pub authorizer: bool,
    /// `Object{...}` and `JSONPatch{...}`
    pub patch_types: bool,
}

/// Compiles the expressions of one policy or webhook configuration.
#[derive(Debug, Default)]
pub struct Compiler {
    uses: OptionalVariables,
    /// The types of `variables.x`; `None` if the object cannot have variables.
    variables: Option<Variables>,
    /// Expressions of the stored object, which may use all features of this server.
    stored: HashSet<String>,
}

impl Compiler {
    /// Returns the compiler for an object with or without `params` and `variables`, which replaces `old`.
    pub fn new(params: bool, variables: bool, old: Option<&Value>) -> Self {
        let mut stored = HashSet::new();
        if let Some(old) = old {
            collect(old, &mut stored);
        }
        Self {
            uses: OptionalVariables { params, ..OptionalVariables::default() },
            variables: variables.then(Variables::default),
            stored,
        }
    }

    /// Validates an expression: it must compile, with a result of one of these types. Errors show `value`.
    pub fn check(
        &self,
        path: &dyn Location,
        value: &str,
        expression: &str,
        uses: OptionalVariables,
        types: &[Type],
        errors: &mut FieldErrors,
    ) {
        if let Err(detail) = self.compile(value, expression, uses, types) {
            errors.push(refused(path, value, &detail));
        }
    }

    /// Compiles the expression of a variable and declares the variable for later expressions, even if this one is
    /// invalid.
    pub fn variable(
        &mut self,
        path: &dyn Location,
        name: &str,
        expression: &str,
        uses: OptionalVariables,
        errors: &mut FieldErrors,
    ) {
        let ty = match self.compile(expression, expression, uses, &[]) {
            Ok(program) => data_type(program.output_type()),
            Err(detail) => {
                errors.push(refused(path, expression, &detail));
                DeclType::new(Shape::Dyn)
            }
        };
        self.variables.get_or_insert_default().insert(name, ty);
    }

    fn compile(
        &self,
        value: &str,
        expression: &str,
        uses: OptionalVariables,
        types: &[Type],
    ) -> Result<Program, String> {
        let version = if self.stored.contains(value) { Version::STORED } else { Version::COMPATIBLE };
        let uses = OptionalVariables { params: self.uses.params, ..uses };
        let variables = self.variables.as_ref().map(|variables| variables.named_in(expression));
        compile(&admission(version, uses, variables.as_deref()), expression, types)
    }
}

/// The variables of a policy.
#[derive(Debug, Default)]
pub struct Variables {
    named: HashMap<Text, DeclType>,
    /// Variables whose name is no identifier. Each is an error, so there are few before validation stops.
    others: Vec<(Text, DeclType)>,
}

impl Variables {
    /// Declares a variable for later expressions; the last one of a name counts.
    pub fn insert(&mut self, name: &str, ty: DeclType) {
        if name.bytes().all(is_part_of_identifier) {
            self.named.insert(name.into(), ty);
        } else {
            self.others.push((name.into(), ty));
        }
    }

    /// Returns the variables whose names occur in an expression. Others are not declared for it: declaring all
    /// variables for each expression takes quadratic time.
    pub fn named_in(&self, expression: &str) -> Vec<(Text, DeclType)> {
        let words = expression.split(|c: char| !(c.is_ascii() && is_part_of_identifier(c as u8)));
        let words: HashSet<&str> = words.filter(|word| !word.is_empty()).collect();
        let named = words.into_iter().filter_map(|word| self.named.get_key_value(word));
        named.map(|(name, ty)| (name.clone(), ty.clone())).chain(self.others.iter().cloned()).collect()
    }
}

fn is_part_of_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the environment of admission expressions. Within one policy, all variables but `authorizer` have the same
/// numbers with and without it.
pub fn admission(version: Version, uses: OptionalVariables, variables: Option<&[(Text, DeclType)]>) -> Environment {
    static KNOWN: OnceLock<Mutex<HashMap<(Version, OptionalVariables), Environment>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let uses_authorizer = uses.authorizer;
    let uses = OptionalVariables { authorizer: false, ..uses };
    let mut env = known.entry((version, uses)).or_insert_with(|| of_admission(version, uses)).clone();
    drop(known);
    if let Some(variables) = variables {
        env = env.with_data("variables", &variables_type(variables));
    }
    if uses_authorizer {
        env = env
            .with_variable("authorizer", authorizer_type())
            .with_variable("authorizer.requestResource", resource_check_type());
    }
    env
}

/// Returns the environment in which expressions of a policy are type-checked against a kind that it matches.
/// Expressions compiled here do not become programs.
pub fn type_checking(object: &DeclType, params: Option<&DeclType>, variables: &[(Text, DeclType)]) -> Environment {
    let mut env = Environment::new(Version::STORED)
        .with_data("namespaceObject", &namespace_type())
        .with_data("request", &request_type())
        .with_data("object", object)
        .with_data("oldObject", object)
        .with_variable("authorizer", authorizer_type());
    if let Some(params) = params {
        env = env.with_data("params", params);
    }
    env.with_data("variables", &variables_type(variables))
}

/// Returns the environment of device selectors.
pub fn devices() -> &'static Environment {
    static DEVICES: OnceLock<Environment> = OnceLock::new();
    DEVICES.get_or_init(|| Environment::new(Version::COMPATIBLE).with_bind().with_data("device", &device_type()))
}

/// The highest cost of evaluating a selector for one device.
const SELECTOR_COST_MAX: u64 = 1_000_000;

/// Validates the selector of a device.
pub fn device_selector(path: &dyn Location, expression: &str, errors: &mut FieldErrors) {
    let checked =
        devices().compile(expression).map_err(|errors| format!("compilation failed: {errors}")).and_then(|ast| {
            ast.program().map_err(|error| format!("program instantiation failed: {error}"))?;
            Ok(ast)
        });
    match checked.map(|ast| (ast.output_type().clone(), ast.estimate_cost().max)) {
        Ok((Type::Bool | Type::Any, cost)) if cost > SELECTOR_COST_MAX => {
            errors.push(FieldError::forbidden(path, "too complex, exceeds cost limit"));
        }
        Ok((Type::Bool | Type::Any, _)) => {}
        Ok((found, _)) => {
            let detail = format!("must evaluate to bool or the unknown type, not {found}");
            errors.push(FieldError::invalid(path, expression, detail));
        }
        Err(detail) => errors.push(FieldError::invalid(path, expression, detail)),
    }
}

/// Compiles an expression whose result is of one of these types, or of any type if there are none.
pub fn compile(env: &Environment, expression: &str, types: &[Type]) -> Result<Program, String> {
    let ast = env.compile(expression).map_err(|errors| format!("compilation failed: {errors}"))?;
    let found = ast.output_type();
    if !types.is_empty() && !types.contains(found) {
        return Err(wrong_type(types, found));
    }
    ast.program().map_err(|error| format!("{NO_PROGRAM}{error}"))
}

/// The prefix of errors of expressions that compile but cannot be made a program.
const NO_PROGRAM: &str = "program instantiation failed: ";

/// Returns the error of an expression. If it compiles but cannot become a program, this is an internal error, as in
/// kube-apiserver.
fn refused(path: &dyn Location, value: &str, detail: &str) -> FieldError {
    if detail.starts_with(NO_PROGRAM) {
        FieldError::internal(path, detail)
    } else {
        FieldError::invalid(path, value, detail)
    }
}

fn wrong_type(wanted: &[Type], found: &Type) -> String {
    match wanted {
        [wanted] => format!("must evaluate to {wanted} but got {found}"),
        wanted => {
            let wanted: Vec<String> = wanted.iter().map(Type::to_string).collect();
            format!("must evaluate to one of [{}] but got {found}", wanted.join(" "))
        }
    }
}

fn collect(value: &Value, stored: &mut HashSet<String>) {
    match value {
        Value::List(items) => items.iter().for_each(|item| collect(item, stored)),
        Value::Object(object) => object.iter().for_each(|(name, value)| match value {
            Value::Str(text) if matches!(name.as_str(), "expression" | "messageExpression" | "valueExpression") => {
                stored.insert(text.to_string());
                stored.insert(text.trim().to_owned());
            }
            value => collect(value, stored),
        }),
        _ => {}
    }
}

fn of_admission(version: Version, uses: OptionalVariables) -> Environment {
    let mut env = Environment::new(version)
        .with_variable("object", Type::Dyn)
        .with_variable("oldObject", Type::Dyn)
        .with_data("namespaceObject", &namespace_type())
        .with_data("request", &request_type());
    if uses.params {
        env = env.with_variable("params", Type::Dyn);
    }
    if uses.patch_types {
        env = env.with_object_construction().with_json_patch();
    }
    env
}

fn of(shape: Shape) -> DeclType {
    DeclType::new(shape)
}

fn string() -> DeclType {
    of(Shape::String)
}

fn strings() -> DeclType {
    DeclType::list(string())
}

/// Returns the type of the request in admission expressions.
pub fn request_type() -> DeclType {
    let kind = || {
        DeclType::object(
            "kubernetes.GroupVersionKind",
            [("group", string()), ("version", string()), ("kind", string())],
        )
    };
    let resource = || {
        DeclType::object(
            "kubernetes.GroupVersionResource",
            [("group", string()), ("version", string()), ("resource", string())],
        )
    };
    let user = DeclType::object(
        "kubernetes.UserInfo",
        [("username", string()), ("uid", string()), ("groups", strings()), ("extra", DeclType::map(strings()))],
    );
    DeclType::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", string()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", string()),
            ("name", string()),
            ("namespace", string()),
            ("operation", string()),
            ("userInfo", user),
            ("dryRun", of(Shape::Bool)),
            ("options", of(Shape::Dyn)),
        ],
    )
}

/// Returns the type of the namespace in admission expressions.
pub fn namespace_type() -> DeclType {
    let condition = DeclType::object(
        "kubernetes.NamespaceCondition",
        [
            ("status", string()),
            ("type", string()),
            ("lastTransitionTime", of(Shape::DateTime)),
            ("message", string()),
            ("reason", string()),
        ],
    );
    let metadata = DeclType::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", string()),
            ("generateName", string()),
            ("namespace", string()),
            ("labels", DeclType::map(string())),
            ("annotations", DeclType::map(string())),
            ("UID", string()),
            ("creationTimestamp", of(Shape::DateTime)),
            ("deletionGracePeriodSeconds", of(Shape::Int)),
            ("deletionTimestamp", of(Shape::DateTime)),
            ("generation", of(Shape::Int)),
            ("resourceVersion", string()),
            ("finalizers", strings()),
        ],
    );
    let spec = DeclType::object("kubernetes.NamespaceSpec", [("finalizers", strings())]);
    let status = DeclType::object(
        "kubernetes.NamespaceStatus",
        [("conditions", DeclType::list(condition)), ("phase", string())],
    );
    DeclType::object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}

/// Returns the type of a device in selectors: attributes and capacities by domain and identifier.
fn device_type() -> DeclType {
    const DOMAIN_MAX: u64 = 63;
    const IDENTIFIER_MAX: u64 = 32;
    const ATTRIBUTES_MAX: u64 = 32;
    const VALUE_MAX: u64 = 64;
    let bounded = |ty: DeclType, max| DeclType { max_elements: Some(max), ..ty };
    let map = |value, key_max| bounded(of(Shape::Map { value: Arc::new(value), key_max }), ATTRIBUTES_MAX);
    let by_name = |ty| map(map(ty, IDENTIFIER_MAX), DOMAIN_MAX);
    let quantity = of(Shape::Value(Type::opaque("kubernetes.Quantity")));
    DeclType::object(
        "kubernetes.DRADevice",
        [
            ("driver", bounded(string(), DOMAIN_MAX)),
            ("allowMultipleAllocations", bounded(of(Shape::Bool), 1)),
            ("attributes", by_name(bounded(of(Shape::Any), VALUE_MAX))),
            ("capacity", by_name(quantity)),
        ],
    )
}

fn variables_type(variables: &[(Text, DeclType)]) -> DeclType {
    let field = |(name, ty): &(Text, DeclType)| {
        let field = DeclField { name: name.clone(), ty: ty.clone(), required: true };
        (name.clone(), field)
    };
    let fields = variables.iter().map(field).collect();
    of(Shape::Object(Arc::new(ObjectType { name: "kubernetes.variables".into(), fields })))
}

/// Returns the type of a variable from the type of its expression. Messages and library values are dynamic, so they are
/// checked at run time.
pub fn data_type(ty: &Type) -> DeclType {
    match ty {
        Type::Any => of(Shape::Any),
        Type::Bool => of(Shape::Bool),
        Type::Int => of(Shape::Int),
        Type::Uint => of(Shape::Uint),
        Type::Double => of(Shape::Double),
        Type::String => of(Shape::String),
        Type::Bytes => of(Shape::Bytes),
        Type::Timestamp => of(Shape::DateTime),
        Type::Duration => of(Shape::Duration),
        Type::Null => of(Shape::Value(Type::Null)),
        Type::List(element) => DeclType::list(data_type(element)),
        Type::Map(entry) if entry.0 == Type::String => DeclType::map(data_type(&entry.1)),
        Type::Map(_) => of(Shape::Value(ty.clone())),
        _ => of(Shape::Dyn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    /// Returns the detail of an error, which follows the value.
    fn detail(error: &FieldError) -> String {
        let body = error.body();
        body.split_once("\": ").map_or(body, |(_, detail)| detail).to_owned()
    }

    fn check(expression: &str, types: &[Type], want: Option<&str>) {
        let mut compiler = Compiler::new(false, true, None);
        let uses = OptionalVariables { authorizer: true, patch_types: true, ..OptionalVariables::default() };
        let mut errors = FieldErrors::new();
        compiler.variable(&FieldPath::root(), "replicas", "object.spec.replicas > 1 ? 2 : 3", uses, &mut errors);
        assert!(errors.is_empty());
        compiler.check(&FieldPath::root().child("e"), expression, expression, uses, types, &mut errors);
        let got: Vec<String> = errors.iter().map(detail).collect();
        assert_eq!(got.first().map(String::as_str), want, "{expression}");
    }

    #[test]
    fn compiles_admission_expressions() {
        let bool = &[Type::Bool];
        check("object.spec.x == 'y' && request.operation == 'CREATE' && variables.replicas > 2", bool, None);
        check("namespaceObject.metadata.labels['a'] == 'b'", bool, None);
        check("authorizer.requestResource.check('create').allowed()", bool, None);
        check("1", bool, Some("must evaluate to bool but got int"));
        check("true", &[Type::String, Type::Null], Some("must evaluate to one of [string null_type] but got bool"));
        check(
            "[1]",
            &[Type::list(Type::object("JSONPatch"))],
            Some("must evaluate to list(JSONPatch) but got list(int)"),
        );
        check("[JSONPatch{op: 'remove', path: '/a'}]", &[Type::list(Type::object("JSONPatch"))], None);
        check("Object{spec: Object.spec{x: 1}}", &[Type::object("Object")], None);
        check(
            "variables.nope",
            bool,
            Some("compilation failed: ERROR: <input>:1:10: undefined field 'nope'\n | variables.nope\n | .........^"),
        );
        check(
            "params.x",
            bool,
            Some(
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
            ),
        );
    }

    #[test]
    fn compiles_device_selectors() {
        let check = |expression: &str, want: &[&str]| {
            let mut errors = FieldErrors::new();
            device_selector(&FieldPath::root().child("e"), expression, &mut errors);
            let got: Vec<String> = errors.iter().map(detail).collect();
            assert_eq!(got, want, "{expression}");
        };
        check("device.driver == 'x' && device.attributes['x'].y", &[]);
        check("device.attributes['x'].y", &[]);
        check("cel.bind(a, device.attributes['x'], a.y && a.z)", &[]);
        check("device.capacity['x'].memory.isGreaterThan(quantity('1Gi'))", &[]);
        check("device.driver", &["must evaluate to bool or the unknown type, not string"]);
    }
}
