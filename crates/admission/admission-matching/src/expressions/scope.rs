//! The variables of expressions for one request, and their evaluation.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use binnacle_cel::{Activation, Error, Fields, Map, PER_CALL_LIMIT, Val};
use binnacle_meta::Text;
use binnacle_schema::{Object, Value};

use crate::expressions::budget::{Budget, OutOfBudget};
use crate::expressions::checks::Checks;
use crate::expressions::compiler::{Expression, Variables};

/// `variables` of a policy that has none.
static NOTHING: LazyLock<Object> = LazyLock::new(Object::new);

/// The objects of a request in the version that the policy or webhook matched.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// See [`crate::expressions::request_object`].
    pub request: &'a Value,
    /// Absent on delete.
    pub object: Option<&'a Value>,
    /// Present on update and delete.
    pub old_object: Option<&'a Value>,
    pub params: Option<&'a Value>,
    /// See [`crate::expressions::namespace_object`]; absent for cluster-scoped objects and for match conditions.
    pub namespace: Option<&'a Value>,
    /// Absent for expressions without access to the authorizer.
    pub checks: Option<&'a Checks>,
}

/// The inputs of expressions, and the variables that have been evaluated with them.
pub struct Scope<'a> {
    variables: &'a Variables,
    inputs: Activation<'a>,
    values: Box<[Slot<'a>]>,
    /// The cost of variables that has not been charged yet.
    cost: AtomicU64,
    /// The inputs and the variables, which are themselves evaluated with this activation.
    with_variables: OnceLock<Activation<'a>>,
    fields: OnceLock<VariableFields<'a>>,
}

#[derive(Debug, Default)]
struct Slot<'a> {
    value: OnceLock<Result<Val<'a>, Error>>,
    /// True while the variable's expression is evaluated.
    is_evaluating: AtomicBool,
}

/// The fields of `variables`.
struct VariableFields<'a>(&'a Scope<'a>);

impl<'a> Scope<'a> {
    pub fn new(variables: &'a Variables, inputs: &Inputs<'a>) -> Self {
        let indices = &variables.indices;
        let mut activation = Activation::for_variables(indices.count);
        let mut set = |number: Option<usize>, value: Val<'a>| {
            if let Some(number) = number {
                activation.set(number, value);
            }
        };
        let tree = |value: Option<&'a Value>| value.map_or(Val::Null, Val::of);
        set(indices.object, tree(inputs.object));
        set(indices.old_object, tree(inputs.old_object));
        set(indices.namespace_object, tree(inputs.namespace));
        set(indices.request, tree(Some(inputs.request)));
        set(indices.params, tree(inputs.params));
        // Replaced by the policy's variables.
        set(indices.variables, Val::Map(Map::Tree(&NOTHING, None)));
        if let Some(checks) = inputs.checks {
            set(indices.authorizer, checks.authorizer_value());
            set(indices.request_resource, checks.resource_value());
        }
        Self {
            variables,
            inputs: activation,
            values: variables.list.iter().map(|_| Slot::default()).collect(),
            cost: AtomicU64::new(0),
            with_variables: OnceLock::new(),
            fields: OnceLock::new(),
        }
    }

    /// Evaluates an expression. The inner error is kube-apiserver's message.
    ///
    /// # Errors
    ///
    /// Returns [`OutOfBudget`] if the expression, including the variables that it uses first, costs more than the
    /// remaining budget.
    pub fn evaluate(
        &'a self,
        expression: &'a Expression,
        budget: &mut Budget,
    ) -> Result<Result<Val<'a>, String>, OutOfBudget> {
        let program = match &expression.compiled {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let evaluated = program.evaluate(self.activation(), PER_CALL_LIMIT);
        budget.spend(self.cost.swap(0, Ordering::Relaxed))?;
        budget.spend(evaluated.cost)?;
        Ok(evaluated.result.map_err(|error| format!("expression '{}' resulted in error: {error}", expression.text)))
    }

    fn activation(&'a self) -> &'a Activation<'a> {
        if self.values.is_empty() {
            return &self.inputs;
        }
        self.with_variables.get_or_init(|| {
            let mut with_variables = self.inputs.clone();
            if let Some(number) = self.variables.indices.variables {
                let fields = self.fields.get_or_init(|| VariableFields(self));
                with_variables.set(number, Val::Map(Map::Fields(fields)));
            }
            with_variables
        })
    }

    fn variable(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        let index = *self.variables.positions.get(name)?;
        let (slot, variable) = (&self.values[index], &self.variables.list[index]);
        if let Some(known) = slot.value.get() {
            return Some(known.clone());
        }
        if slot.is_evaluating.swap(true, Ordering::Relaxed) {
            // The type checker only allows earlier variables, but cannot check accesses through `dyn()`.
            return Some(Err(Error::new(format!("composited variable \"{}\" is used by itself", variable.name))));
        }
        let value = match &variable.expression.compiled {
            Ok(program) => {
                let evaluated = program.evaluate(self.activation(), PER_CALL_LIMIT);
                self.cost.fetch_add(evaluated.cost, Ordering::Relaxed);
                evaluated.result.map_err(|error| {
                    Error::new(format!("composited variable {:?} fails to evaluate: {error}", variable.name.as_str()))
                })
            }
            Err(why) => {
                Err(Error::new(format!("composited variable {:?} fails to compile: {why}", variable.name.as_str())))
            }
        };
        Some(slot.value.get_or_init(|| value).clone())
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl Fields for VariableFields<'_> {
    fn get(&self, name: &str) -> Option<Result<Val<'_>, Error>> {
        self.0.variable(name)
    }

    fn names(&self) -> Vec<Text> {
        self.0.variables.list.iter().map(|variable| variable.name.clone()).collect()
    }
}

impl fmt::Debug for VariableFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::expressions::compiler::Compiler;

    /// Returns the results of the expressions as strings, in order.
    fn evaluate(variables: &[(&str, &str)], expressions: &[&str], budget: u64) -> Result<Vec<String>, OutOfBudget> {
        let mut compiler = Compiler::of_policy(true);
        variables.iter().for_each(|(name, expression)| compiler.variable(name, expression));
        let expressions: Vec<_> = expressions.iter().map(|text| compiler.compile(text, &[])).collect();
        let variables = compiler.into_variables();
        let (request, object) = (value!({"operation": "CREATE"}), value!({"spec": {"replicas": 3, "list": [1, 2]}}));
        let inputs = Inputs {
            request: &request,
            object: Some(&object),
            old_object: None,
            params: None,
            namespace: None,
            checks: None,
        };
        let scope = Scope::new(&variables, &inputs);
        let mut budget = Budget::new(budget);
        let mut results = Vec::new();
        for expression in &expressions {
            results.push(match scope.evaluate(expression, &mut budget)? {
                Ok(value) => value.to_string(),
                Err(why) => why,
            });
        }
        Ok(results)
    }

    #[test]
    fn evaluates_variables_on_first_use_with_errors() {
        let variables = [
            ("spec", "object.spec"),
            ("twice", "variables.spec.replicas * 2"),
            ("broken", "object.nope"),
            ("later", "dyn(variables).last"),
            ("last", "7"),
            ("own", "dyn(variables).own"),
            ("bad", "object.spec +"),
        ];
        for (expression, want) in [
            ("variables.twice == 6 && request.operation == 'CREATE'", "true"),
            ("variables.spec.list", "[1, 2]"),
            ("oldObject == null && params == null && namespaceObject == null", "true"),
            (
                "variables.broken",
                "expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no \
                 such key: nope",
            ),
            ("variables.broken == 1 || true", "true"),
            ("variables.later + variables.last", "14"),
            (
                "variables.own",
                "expression 'variables.own' resulted in error: composited variable \"own\" fails to evaluate: \
                 composited variable \"own\" is used by itself",
            ),
            (
                "variables.bad",
                "expression 'variables.bad' resulted in error: composited variable \"bad\" fails to compile: compilation \
                 failed: ERROR: <input>:1:14: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', \
                 '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.spec \
                 +\n | .............^",
            ),
            (
                "authorizer.path('/x').check('get').allowed()",
                "expression 'authorizer.path('/x').check('get').allowed()' resulted in error: no such attribute(s): \
                 authorizer",
            ),
            (
                "variables.unknown",
                "compilation error: compilation failed: ERROR: <input>:1:10: undefined field 'unknown'\n | \
                 variables.unknown\n | .........^",
            ),
        ] {
            assert_eq!(evaluate(&variables, &[expression], 1000).unwrap(), [want], "{expression}");
        }
    }

    #[test]
    fn charges_a_variable_to_its_first_use() {
        let variables = [("large", "[1, 2, 3].map(x, x * 2)")];
        // The first expression that uses the variable is charged for it.
        let expressions = ["variables.large.size() == 3", "variables.large.size() == 4"];
        let least = (0..).find(|budget| evaluate(&variables, &expressions[..1], *budget).is_ok()).unwrap();
        let both = (0..).find(|budget| evaluate(&variables, &expressions, *budget).is_ok()).unwrap();
        assert!(both - least < 10 && least > 30, "{least} {both}");
        assert_eq!(evaluate(&variables, &expressions, least), Err(OutOfBudget));
    }
}
