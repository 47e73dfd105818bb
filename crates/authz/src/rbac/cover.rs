//! Coverage of rules by other rules: limits the rights that a user may grant, and finds the rules that bootstrap roles
//! lack.

use std::collections::{BTreeSet, HashMap};

use binnacle_meta::Text;

use super::rule::{Rule, path_matches};

/// Returns the parts of `wanted` that no single rule of `held` allows, each with one verb, group, resource and name, or
/// one verb and path.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted.iter().flat_map(parts).filter(|part| !held.iter().any(|rule| covers(rule, part))).collect()
}

/// Formats rules as sorted lines for a message; those that differ only in verbs become one.
pub(super) fn compact_lines(rules: Vec<Rule>) -> BTreeSet<String> {
    let mut simple: HashMap<(Text, Text, Option<Text>), Rule> = HashMap::new();
    let mut lines = BTreeSet::new();
    for rule in rules {
        let ([group], [resource], [] | [_]) = (&rule.api_groups[..], &rule.resources[..], &rule.resource_names[..])
        else {
            lines.insert(rule.compact());
            continue;
        };
        let key = (group.clone(), resource.clone(), rule.resource_names.first().cloned());
        match simple.get_mut(&key) {
            Some(same) => same.verbs.extend(rule.verbs),
            None => drop(simple.insert(key, rule)),
        }
    }
    lines.extend(simple.values().map(Rule::compact));
    lines
}

fn parts(rule: &Rule) -> Vec<Rule> {
    let one = |text: &Text| vec![text.clone()];
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part =
                    Rule { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Rule::default() };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                    continue;
                }
                let named = rule.resource_names.iter().map(|name| Rule { resource_names: one(name), ..part.clone() });
                parts.extend(named);
            }
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| Rule { verbs: one(verb), paths: one(path), ..Rule::default() }));
    }
    parts
}

/// Returns true if a rule allows a part. Fields that are empty in the part are allowed by every rule.
fn covers(rule: &Rule, part: &Rule) -> bool {
    let all = |held: &[Text], wanted: &[Text]| wanted.iter().all(|text| held.iter().any(|h| h == text || h == "*"));
    let exactly = |held: &[Text], wanted: &[Text]| wanted.iter().all(|text| held.contains(text));
    let names = rule.resource_names.is_empty()
        || (!part.resource_names.is_empty() && exactly(&rule.resource_names, &part.resource_names));
    all(&rule.verbs, &part.verbs)
        && all(&rule.api_groups, &part.api_groups)
        && part.resources.iter().all(|resource| covers_resource(&rule.resources, resource))
        && names
        && part.paths.iter().all(|path| rule.paths.iter().any(|pattern| path_matches(pattern, path)))
}

fn covers_resource(held: &[Text], wanted: &str) -> bool {
    let subresource = wanted.split_once('/').map(|(_, subresource)| subresource);
    held.iter().any(|resource| {
        resource == "*"
            || resource == wanted
            // `*/scale` means that subresource of all resources.
            || subresource.is_some_and(|subresource| resource.strip_prefix("*/") == Some(subresource))
    })
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;

    #[test]
    fn what_is_held_already() {
        let rule = |rule: Value| Rule::read(&rule);
        let pods = rule(value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}));
        let all = rule(value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        let named =
            rule(value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]}));
        let scale = rule(value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]}));
        let scale_of = rule(value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}));
        let path = |path: &str| rule(value!({"verbs": ["get"], "nonResourceURLs": [path]}));
        for (held, wanted, lacking) in [
            (vec![], &pods, 2),
            (vec![pods.clone()], &pods, 0),
            (vec![all.clone()], &named, 0),
            (vec![pods.clone()], &all, 1),
            (vec![named.clone()], &pods, 2),
            (vec![pods.clone()], &named, 0),
            (vec![named.clone()], &named, 0),
            (vec![scale.clone()], &scale_of, 0),
            (vec![scale_of.clone()], &scale, 1),
            (vec![path("/api/*")], &path("/api/v1"), 0),
            (vec![path("/api/*")], &path("/api/*"), 0),
            (vec![path("/api")], &path("/api/*"), 1),
            (vec![path("*")], &path("/api/*"), 0),
            (vec![all.clone()], &path("/api"), 1),
        ] {
            assert_eq!(uncovered(&held, std::slice::from_ref(wanted)).len(), lacking, "{held:?} {wanted:?}");
        }
    }

    #[test]
    fn lines() {
        let wanted = [
            Rule::read(
                &value!({"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["secrets", "configmaps"]}),
            ),
            Rule::read(&value!({"verbs": ["get"], "apiGroups": ["a"], "resources": ["x"], "resourceNames": ["n"]})),
            Rule::read(&value!({"verbs": ["get", "put"], "nonResourceURLs": ["/x"]})),
        ];
        let lines: Vec<_> = compact_lines(uncovered(&[], &wanted)).into_iter().collect();
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["get" "delete"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#,
                r#"{APIGroups:["a"], Resources:["x"], ResourceNames:["n"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["put"]}"#,
            ]
        );
    }
}
