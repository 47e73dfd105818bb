//! Label selectors of objects, formatted like the `labelSelector` parameter of a request.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement as Expression};
use binnacle_meta::{Operator, Requirement, SelectorError, Text, go_quote};

use crate::format::{NONE, join, strings};

/// Formats a selector; `<none>` if it is empty.
pub(crate) fn label_selector(selector: FieldRef<LabelSelector>) -> String {
    match requirements(selector) {
        Ok(requirements) if requirements.is_empty() => NONE.into(),
        Ok(requirements) => requirements,
        Err(_) => "<error>".into(),
    }
}

/// Formats a selector of a Deployment, which has texts of its own for an empty or invalid one.
pub(crate) fn deployment_selector(selector: FieldRef<LabelSelector>) -> String {
    requirements(selector).unwrap_or_else(|_| "<invalid>".into())
}

fn requirements(selector: FieldRef<LabelSelector>) -> Result<String, SelectorError> {
    let (labels, expressions) =
        (selector.at(LabelSelector::MATCH_LABELS), selector.at(LabelSelector::MATCH_EXPRESSIONS));
    let labels = labels.entries().map(|(key, value)| {
        let value = value.str();
        Requirement::new(key, Operator::Equals, vec![value.into()])?;
        Ok((key, format!("{key}={value}")))
    });
    let expressions = expressions.items().map(|expression| {
        let key = expression.at(Expression::KEY).str();
        // Unlike in the selector of a request, duplicate values are shown.
        let mut values: Vec<&str> = strings(expression.at(Expression::VALUES)).collect();
        values.sort_unstable();
        let joined = values.join(",");
        let (operator, text) = match expression.at(Expression::OPERATOR).str() {
            "In" => (Operator::In, format!("{key} in ({joined})")),
            "NotIn" => (Operator::NotIn, format!("{key} notin ({joined})")),
            "Exists" => (Operator::Exists, key.to_owned()),
            "DoesNotExist" => (Operator::DoesNotExist, format!("!{key}")),
            other => {
                return Err(SelectorError::new(format!("{} is not a valid label selector operator", go_quote(other))));
            }
        };
        Requirement::new(key, operator, values.into_iter().map(Text::from).collect())?;
        Ok((key, text))
    });
    let mut requirements = labels.chain(expressions).collect::<Result<Vec<_>, _>>()?;
    requirements.sort_by_key(|(key, _)| *key);
    Ok(join(requirements.iter().map(|(_, text)| text.as_str()), ","))
}

/// Formats a selector like Go's generated `String` methods.
pub(crate) fn go_string(selector: FieldRef<LabelSelector>) -> String {
    let labels = selector.at(LabelSelector::MATCH_LABELS);
    let mut labels: Vec<_> = labels.entries().map(|(key, value)| (key, value.str())).collect();
    labels.sort_unstable_by_key(|(key, _)| *key);
    let mut text = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in labels {
        text += &format!("{key}: {value},");
    }
    text += "},MatchExpressions:[]LabelSelectorRequirement{";
    for expression in selector.at(LabelSelector::MATCH_EXPRESSIONS).items() {
        let (key, operator) = (expression.at(Expression::KEY).str(), expression.at(Expression::OPERATOR).str());
        let values = join(strings(expression.at(Expression::VALUES)), " ");
        text += &format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    text + "},}"
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;

    #[test]
    fn formats_label_selectors() {
        let cases = [
            (Value::Null, "<none>", ""),
            (value!({}), "<none>", ""),
            (value!({"matchLabels": {"b": "2", "a": ""}}), "a=,b=2", "a=,b=2"),
            (
                value!({
                    "matchLabels": {"m": "x"},
                    "matchExpressions": [
                        {"key": "z", "operator": "In", "values": ["b", "a", "b"]},
                        {"key": "n", "operator": "NotIn", "values": ["one"]},
                        {"key": "a", "operator": "Exists"},
                        {"key": "b", "operator": "DoesNotExist"},
                    ],
                }),
                "a,!b,m=x,n notin (one),z in (a,b,b)",
                "a,!b,m=x,n notin (one),z in (a,b,b)",
            ),
            (value!({"matchLabels": {"a": "not a value"}}), "<error>", "<invalid>"),
            (value!({"matchLabels": {"-a": "b"}}), "<error>", "<invalid>"),
            (value!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}), "<error>", "<invalid>"),
            (value!({"matchExpressions": [{"key": "a", "operator": "In"}]}), "<error>", "<invalid>"),
        ];
        for (selector, want, want_of_deployment) in cases {
            assert_eq!(label_selector(FieldRef::root(&selector)), want);
            assert_eq!(deployment_selector(FieldRef::root(&selector)), want_of_deployment);
        }
    }

    #[test]
    fn formats_selectors_as_go_strings() {
        let cases = [
            (
                value!({}),
                "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                value!({
                    "matchLabels": {"b": "2", "a": "1"},
                    "matchExpressions": [
                        {"key": "k", "operator": "In", "values": ["x", "y"]},
                        {"key": "e", "operator": "Exists"},
                    ],
                }),
                "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{\
                 LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},\
                 LabelSelectorRequirement{Key:e,Operator:Exists,Values:[],},},}",
            ),
        ];
        for (selector, want) in cases {
            assert_eq!(go_string(FieldRef::root(&selector)), want);
        }
    }
}
