//! Label selectors of objects, formatted like the `labelSelector` parameter of a request.

use binnacle_meta::{Operator, Requirement, SelectorError, Text};
use binnacle_schema::Value;

use crate::format::NONE;

/// Formats a selector; `<none>` if it is empty.
pub(crate) fn label_selector(selector: Option<&Value>) -> String {
    match requirements(selector) {
        Ok(requirements) if requirements.is_empty() => NONE.into(),
        Ok(requirements) => requirements,
        Err(_) => "<error>".into(),
    }
}

/// Formats a selector of a Deployment, which has texts of its own for an empty or invalid one.
pub(crate) fn deployment_selector(selector: Option<&Value>) -> String {
    requirements(selector).unwrap_or_else(|_| "<invalid>".into())
}

fn requirements(selector: Option<&Value>) -> Result<String, SelectorError> {
    let Some(selector) = selector else { return Ok(String::new()) };
    let labels = selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.iter());
    let labels = labels.map(|(key, value)| {
        let value = value.as_str().unwrap_or("");
        Requirement::new(key, Operator::Equals, vec![value.into()])?;
        Ok((key.as_str(), format!("{key}={value}")))
    });
    let expressions = selector.list_at(&["matchExpressions"]).iter().map(|expression| {
        let key = expression.str_at(&["key"]);
        let values = expression.list_at(&["values"]).iter().map(|value| value.as_str().unwrap_or(""));
        // Unlike in the selector of a request, duplicate values are shown.
        let mut values: Vec<&str> = values.collect();
        values.sort_unstable();
        let joined = values.join(",");
        let (operator, text) = match expression.str_at(&["operator"]) {
            "In" => (Operator::In, format!("{key} in ({joined})")),
            "NotIn" => (Operator::NotIn, format!("{key} notin ({joined})")),
            "Exists" => (Operator::Exists, key.to_owned()),
            "DoesNotExist" => (Operator::DoesNotExist, format!("!{key}")),
            other => return Err(SelectorError::new(format!("{other:?} is not a valid label selector operator"))),
        };
        Requirement::new(key, operator, values.into_iter().map(Text::from).collect())?;
        Ok((key, text))
    });
    let mut requirements = labels.chain(expressions).collect::<Result<Vec<_>, _>>()?;
    requirements.sort_by_key(|(key, _)| *key);
    Ok(crate::format::join(requirements.iter().map(|(_, text)| text.as_str()), ","))
}

/// Formats a selector like Go's generated `String` methods.
pub(crate) fn go_string(selector: &Value) -> String {
    let mut labels: Vec<_> =
        selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.iter()).collect();
    labels.sort_unstable_by_key(|(key, _)| *key);
    let mut text = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in labels {
        text += &format!("{key}: {},", value.as_str().unwrap_or(""));
    }
    text += "},MatchExpressions:[]LabelSelectorRequirement{";
    for expression in selector.list_at(&["matchExpressions"]) {
        let (key, operator) = (expression.str_at(&["key"]), expression.str_at(&["operator"]));
        let values = crate::format::join(crate::format::strings(expression, &["values"]), " ");
        text += &format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},");
    }
    text + "},}"
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn selectors() {
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
            assert_eq!(label_selector(Some(&selector)), want);
            assert_eq!(deployment_selector(Some(&selector)), want_of_deployment);
        }
        assert_eq!(label_selector(None), "<none>");
    }

    #[test]
    fn go_strings() {
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
            assert_eq!(go_string(&selector), want);
        }
    }
}
