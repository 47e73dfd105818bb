//! Whether rules allow what others do.

use binnacle_schema::{Value, value};

/// The parts of `wanted` that no rule of `there` allows, each as a rule with one verb, group, resource and name, or one
/// verb and path.
pub(super) fn uncovered(there: &[Value], wanted: &[Value]) -> Vec<Value> {
    let parts = wanted.iter().flat_map(parts);
    parts.filter(|part| !there.iter().any(|rule| covers(rule, part))).collect()
}

fn parts(rule: &Value) -> Vec<Value> {
    let mut parts = Vec::new();
    for verb in texts(rule, "verbs") {
        for path in texts(rule, "nonResourceURLs") {
            parts.push(value!({"verbs": [verb], "nonResourceURLs": [path]}));
        }
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                let part = value!({"verbs": [verb], "apiGroups": [group], "resources": [resource]});
                if texts(rule, "resourceNames").next().is_none() {
                    parts.push(part);
                    continue;
                }
                for name in texts(rule, "resourceNames") {
                    let mut part = part.clone();
                    part.make_object().insert("resourceNames", vec![name]);
                    parts.push(part);
                }
            }
        }
    }
    parts
}

/// Whether a rule allows all of a part.
fn covers(rule: &Value, part: &Value) -> bool {
    let one = |member| texts(part, member).next();
    let has = |member: &str, wanted: &str| texts(rule, member).any(|text| text == wanted || text == "*");
    if !one("verbs").is_some_and(|verb| has("verbs", verb)) {
        return false;
    }
    if let Some(path) = one("nonResourceURLs") {
        return texts(rule, "nonResourceURLs").any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == pattern,
        });
    }
    let (Some(group), Some(resource)) = (one("apiGroups"), one("resources")) else { return false };
    // `*/scale` stands for that subresource of all resources.
    let any = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    let resource = has("resources", resource) || any.is_some_and(|any| texts(rule, "resources").any(|r| r == any));
    let unnamed = texts(rule, "resourceNames").next().is_none();
    let names = unnamed || one("resourceNames").is_some_and(|name| texts(rule, "resourceNames").any(|n| n == name));
    has("apiGroups", group) && resource && names
}

fn texts<'a>(rule: &'a Value, member: &str) -> impl Iterator<Item = &'a str> {
    rule.list_at(&[member]).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_already() {
        let pods = value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        let all = value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let named = value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]});
        let scale = value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]});
        let scale_of = value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]});
        let path = |path: &str| value!({"verbs": ["get"], "nonResourceURLs": [path]});
        for (there, wanted, lacking) in [
            (vec![], &pods, 2),
            (vec![pods.clone()], &pods, 0),
            (vec![all.clone()], &named, 0),
            (vec![pods.clone()], &all, 1),
            (vec![named.clone()], &pods, 2),
            (vec![pods.clone()], &named, 0),
            (vec![scale.clone()], &scale_of, 0),
            (vec![path("/api/*")], &path("/api/v1"), 0),
            (vec![path("/api")], &path("/api/*"), 1),
            (vec![all.clone()], &path("/api"), 1),
        ] {
            assert_eq!(uncovered(&there, std::slice::from_ref(wanted)).len(), lacking, "{there:?} {wanted:?}");
        }
    }
}
