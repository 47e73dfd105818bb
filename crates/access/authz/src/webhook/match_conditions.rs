//! Match conditions of webhooks: CEL expressions over a review. The webhook is only called if all of them are true.

use std::sync::LazyLock;
use std::time::Instant;

use binnacle_cel::{DeclType, Environment, PER_CALL_LIMIT, Program, Shape, Type, Val, Version};
use binnacle_meta::{Text, aggregate};
use binnacle_schema::{Object, Value};
use binnacle_work::pace;

use super::review::Review;
use crate::Metrics;

/// The compiled match conditions of a webhook.
#[derive(Default)]
pub(crate) struct MatchConditions {
    compiled: Vec<(String, Program)>,
}

/// The environment of expressions: `request` is the spec of a `v1` SubjectAccessReview.
struct ReviewEnvironment {
    environment: Environment,
    request: DeclType,
}

static REVIEW_ENVIRONMENT: LazyLock<ReviewEnvironment> = LazyLock::new(|| {
    let request = request_type();
    ReviewEnvironment { environment: Environment::new(Version::STORED).with_data("request", &request), request }
});

impl MatchConditions {
    /// Compiles expressions. Returns the validation error of the first invalid one.
    pub(crate) fn compile(expressions: &[String]) -> Result<Self, String> {
        let compile = |expression: &String| {
            let ast = REVIEW_ENVIRONMENT.environment.compile(expression);
            let ast = ast.map_err(|errors| format!("compilation failed: {errors}"))?;
            if *ast.output_type() != Type::Bool {
                return Err(format!("must evaluate to bool but got {}", ast.output_type()));
            }
            let program = ast.program().map_err(|error| format!("program instantiation failed: {error}"))?;
            Ok((expression.clone(), program))
        };
        Ok(Self { compiled: expressions.iter().map(compile).collect::<Result<_, String>>()? })
    }

    /// Returns true if all conditions are true. A false expression takes precedence over a failing one.
    pub(crate) fn are_met(&self, review: &Review, webhook: &str, metrics: &Metrics) -> Result<bool, String> {
        if self.compiled.is_empty() {
            return Ok(true);
        }
        let began = Instant::now();
        let outcome = self.evaluate(review);
        let excluded = matches!(outcome, Ok(false));
        metrics.record_match_conditions(webhook, began.elapsed(), excluded, outcome.is_err());
        outcome
    }

    fn evaluate(&self, review: &Review) -> Result<bool, String> {
        let request = complete_spec(review);
        let failed = |error: binnacle_cel::Error| error.to_string();
        let mut errors = Vec::new();
        for (expression, program) in &self.compiled {
            let value = Val::typed(&request, &REVIEW_ENVIRONMENT.request).map_err(failed)?;
            let activation = REVIEW_ENVIRONMENT.environment.activation().with(0, value);
            match program.eval(&activation, PER_CALL_LIMIT) {
                Ok(value) => match value.as_bool() {
                    Some(true) => {}
                    Some(false) => return Ok(false),
                    None => errors.push(format!(
                        "cel evaluation error: expression '{expression}' eval result type should be bool but got {}",
                        value.type_name()
                    )),
                },
                Err(error) => {
                    errors.push(format!("cel evaluation error: expression '{expression}' resulted in error: {error}"))
                }
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(aggregate(&errors)) }
    }
}

/// Returns the spec with all string fields set, so that expressions need not check whether they exist.
fn complete_spec(review: &Review) -> Value {
    let groups = review.spec.get("groups").and_then(Value::as_list).map_or(0, <[Value]>::len);
    pace(2 * groups as u64);
    let mut request = Object::new();
    let spec = &review.spec;
    let or_empty = |object: &Object, member: &str| object.get(member).cloned().unwrap_or_else(|| Value::from(""));
    request.insert("user", or_empty(spec, "user"));
    request.insert("uid", or_empty(spec, "uid"));
    request.insert("groups", spec.get("groups").cloned().unwrap_or_else(|| Value::List(Vec::new())));
    request.insert("extra", spec.get("extra").cloned().unwrap_or_else(|| Value::Object(Object::new())));
    for (member, texts) in [("resourceAttributes", &RESOURCE_TEXTS[..]), ("nonResourceAttributes", &PATH_TEXTS[..])] {
        let Some(given) = spec.get(member).and_then(Value::as_object) else { continue };
        let mut attributes: Object = texts.iter().map(|text| (Text::new_static(text), or_empty(given, text))).collect();
        for selector in ["fieldSelector", "labelSelector"] {
            if let Some(selected) = given.get(selector) {
                attributes.insert(selector, selected.clone());
            }
        }
        request.insert(member, attributes);
    }
    Value::Object(request)
}

const RESOURCE_TEXTS: [&str; 7] = ["namespace", "verb", "group", "version", "resource", "subresource", "name"];
const PATH_TEXTS: [&str; 2] = ["path", "verb"];

fn request_type() -> DeclType {
    let text = || DeclType::new(Shape::String);
    let texts = || DeclType::list(text());
    let requirement = || {
        let fields = [("key", text()), ("operator", text()), ("values", texts())];
        DeclType::object("kubernetes.SelectorRequirement", fields)
    };
    let selector = |name| {
        let requirements = DeclType::list(requirement());
        DeclType::object(name, [("rawSelector", text()), ("requirements", requirements)])
    };
    let mut resource: Vec<(&'static str, DeclType)> = RESOURCE_TEXTS.iter().map(|name| (*name, text())).collect();
    resource.push(("fieldSelector", selector("kubernetes.FieldSelectorAttributes")));
    resource.push(("labelSelector", selector("kubernetes.LabelSelectorAttributes")));
    let path = PATH_TEXTS.iter().map(|name| (*name, text()));
    let fields = [
        ("resourceAttributes", DeclType::object("kubernetes.ResourceAttributes", resource)),
        ("nonResourceAttributes", DeclType::object("kubernetes.NonResourceAttributes", path)),
        ("user", text()),
        ("groups", texts()),
        ("extra", DeclType::map(texts())),
        ("uid", text()),
    ];
    DeclType::object("kubernetes.SubjectAccessReviewSpec", fields)
}

#[cfg(test)]
mod tests {
    use binnacle_request::User;

    use super::*;
    use crate::Attributes;

    fn evaluate(attributes: &Attributes<'_>, expressions: &[&str]) -> Result<bool, String> {
        let expressions: Vec<String> = expressions.iter().map(ToString::to_string).collect();
        MatchConditions::compile(&expressions).unwrap().evaluate(&Review::of(attributes))
    }

    #[test]
    fn evaluates_all_expressions_over_the_review() {
        let mut user = User::new("alice", &["system:authenticated", "dev"]);
        user.extra.insert("scope".into(), vec!["a".into()]);
        let list = Attributes {
            verb: "list",
            is_resource_request: true,
            resource: "pods",
            namespace: "kube-system",
            field_selector: "spec.nodeName=n1",
            label_selector: "app in (a,b)",
            ..Attributes::nothing(&user)
        };
        let get = Attributes { verb: "get", path: "/metrics", ..Attributes::nothing(&user) };
        for (attributes, expressions, want) in [
            (&list, &[][..], Ok(true)),
            (&list, &["has(request.resourceAttributes)"], Ok(true)),
            (&get, &["has(request.resourceAttributes)"], Ok(false)),
            (&list, &["request.resourceAttributes.namespace == 'kube-system'"], Ok(true)),
            (&list, &["request.resourceAttributes.subresource == ''"], Ok(true)),
            (&list, &["!('system:nodes' in request.groups)", "request.user == 'bob'"], Ok(false)),
            (&list, &["request.extra['scope'].exists(s, s == 'a')"], Ok(true)),
            (&get, &["request.nonResourceAttributes.path.startsWith('/met')"], Ok(true)),
            (
                &list,
                &["request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && \
                   r.operator == 'In' && r.values == ['n1'])"],
                Ok(true),
            ),
            (&list, &["request.resourceAttributes.labelSelector.requirements[0].values.size() == 2"], Ok(true)),
            // A false expression takes precedence over a failing one.
            (&get, &["request.resourceAttributes.verb == 'x'", "false"], Ok(false)),
        ] {
            assert_eq!(evaluate(attributes, expressions), want, "{expressions:?}");
        }
        let failed = evaluate(&get, &["request.resourceAttributes.verb == 'x'", "true"]).unwrap_err();
        assert!(
            failed.starts_with(
                "cel evaluation error: expression 'request.resourceAttributes.verb == 'x'' resulted in error: no such key"
            ),
            "{failed}"
        );
    }

    #[test]
    fn rejects_invalid_expressions() {
        for (expression, want) in [
            ("request.user", "must evaluate to bool but got string"),
            ("request.name == 'x'", "compilation failed: ERROR: <input>:1:8: undefined field 'name'"),
            ("request.user ==", "compilation failed: ERROR: <input>:1:16: Syntax error"),
            ("object.x == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'object'"),
        ] {
            let why = MatchConditions::compile(&[expression.to_owned()]).err().unwrap();
            assert!(why.starts_with(want), "{why}");
        }
    }
}
