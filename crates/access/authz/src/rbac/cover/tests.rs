//! Coverage, compared with the naive Cartesian product of the lists.

use binnacle_schema::{Value, value};
use binnacle_work::{WorkBudget, WorkLimits};

use super::*;
use crate::rule::path_matches;

fn rule(rule: Value) -> Rule {
    Rule::read(&rule)
}

fn texts(texts: &[&str]) -> Vec<Text> {
    texts.iter().map(Text::new).collect()
}

fn numbered(prefix: &str, count: usize) -> Vec<Text> {
    (0..count).map(|number| format!("{prefix}{number}").into()).collect()
}

fn message(held: &[Rule], required: &[Rule]) -> String {
    Lines::of(&uncovered_by(held.iter(), required).unwrap()).unwrap()
}

#[test]
fn finds_permissions_that_are_not_held() {
    let pods = rule(value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}));
    let all = rule(value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    let named = rule(value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a", "b"]}));
    let scale = rule(value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*/scale"]}));
    let scale_of = rule(value!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"]}));
    let path = |path: &str| rule(value!({"verbs": ["get"], "nonResourceURLs": [path]}));
    for (held, required, want) in [
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
        let found = uncovered(&held, std::slice::from_ref(required)).unwrap();
        assert_eq!(found.len(), want, "{held:?} {required:?}");
    }
}

#[test]
fn formats_missing_permissions_as_lines() {
    let required = [
        rule(value!({"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["secrets", "configmaps"]})),
        rule(value!({"verbs": ["get"], "apiGroups": ["a"], "resources": ["x"], "resourceNames": ["n"]})),
        rule(value!({"verbs": ["get", "put"], "nonResourceURLs": ["/x"]})),
    ];
    assert_eq!(
        message(&[], &required).lines().collect::<Vec<_>>(),
        [
            r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["get" "delete"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}"#,
            r#"{APIGroups:["a"], Resources:["x"], ResourceNames:["n"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/x"], Verbs:["put"]}"#,
        ]
    );
}

/// The algorithm of kube-apiserver: each permission of a required rule is compared with each held rule.
mod plain {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    pub(super) fn uncovered(held: &[Rule], required: &[Rule]) -> Vec<Rule> {
        required.iter().flat_map(parts).filter(|permission| !held.iter().any(|rule| covers(rule, permission))).collect()
    }

    pub(super) fn lines(rules: Vec<Rule>) -> String {
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
        lines.into_iter().collect::<Vec<_>>().join("\n")
    }

    fn parts(rule: &Rule) -> Vec<Rule> {
        let one = |text: &Text| vec![text.clone()];
        let mut parts = Vec::new();
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let permission =
                        Rule { verbs: one(verb), api_groups: one(group), resources: one(resource), ..Rule::default() };
                    if rule.resource_names.is_empty() {
                        parts.push(permission);
                        continue;
                    }
                    let names = rule.resource_names.iter();
                    parts.extend(names.map(|name| Rule { resource_names: one(name), ..permission.clone() }));
                }
            }
        }
        for path in &rule.paths {
            parts.extend(rule.verbs.iter().map(|verb| Rule { verbs: one(verb), paths: one(path), ..Rule::default() }));
        }
        parts
    }

    fn covers(rule: &Rule, permission: &Rule) -> bool {
        let all =
            |held: &[Text], required: &[Text]| required.iter().all(|text| held.iter().any(|h| h == text || h == "*"));
        let exactly = |held: &[Text], required: &[Text]| required.iter().all(|text| held.contains(text));
        let names = rule.resource_names.is_empty()
            || (!permission.resource_names.is_empty() && exactly(&rule.resource_names, &permission.resource_names));
        all(&rule.verbs, &permission.verbs)
            && all(&rule.api_groups, &permission.api_groups)
            && permission.resources.iter().all(|resource| covers_resource(&rule.resources, resource))
            && names
            && permission.paths.iter().all(|path| rule.paths.iter().any(|pattern| path_matches(pattern, path)))
    }

    fn covers_resource(held: &[Text], required: &str) -> bool {
        let subresource = required.split_once('/').map(|(_, subresource)| subresource);
        held.iter().any(|resource| {
            resource == "*"
                || resource == required
                || subresource.is_some_and(|subresource| resource.strip_prefix("*/") == Some(subresource))
        })
    }
}

/// A deterministic pseudo-random number generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn some(&mut self, of: &[&str], most: usize) -> Vec<Text> {
        let count = self.below(most + 1);
        (0..count).map(|_| Text::new(of[self.below(of.len())])).collect()
    }

    fn rule(&mut self) -> Rule {
        let paths = if self.below(3) == 0 { 3 } else { 0 };
        let names = if self.below(2) == 0 { 3 } else { 0 };
        Rule {
            verbs: self.some(&["get", "list", "watch", "*", "", "get"], 4),
            api_groups: self.some(&["", "apps", "batch", "*"], 3),
            resources: self.some(&["pods", "pods/log", "*/log", "*", "jobs/log", "*/", "pods/", "a/b/c", "*/b/c"], 5),
            resource_names: self.some(&["a", "b", "*", ""], names),
            paths: self.some(&["/a", "/a/b", "/a*", "/a/**", "*", "", "/b"], paths),
        }
    }
}

#[test]
fn agrees_with_the_algorithm_of_kube_apiserver() {
    let mut random = Rng(7);
    let mut some_missing = 0;
    for round in 0..5_000 {
        let held: Vec<Rule> = (0..random.below(7)).map(|_| random.rule()).collect();
        let required: Vec<Rule> = (0..1 + random.below(3)).map(|_| random.rule()).collect();
        let plain = plain::uncovered(&held, &required);
        assert_eq!(uncovered(&held, &required).unwrap(), plain, "round {round}: {held:?} {required:?}");
        let count: u64 = uncovered_by(held.iter(), &required).unwrap().iter().map(UncoveredRule::count).sum();
        assert_eq!(count, plain.len() as u64);
        some_missing += usize::from(count > 0 && !held.is_empty());
        assert_eq!(message(&held, &required), plain::lines(plain));
    }
    assert!(some_missing > 1_000, "{some_missing}");
}

fn product(of: usize) -> Rule {
    Rule {
        verbs: numbered("v", of),
        api_groups: numbered("g", of),
        resources: numbered("r", of),
        resource_names: numbered("n", of),
        paths: Vec::new(),
    }
}

/// Returns the rules of a namespace administrator.
fn namespace_admin_rules() -> Vec<Rule> {
    let verbs = texts(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let rule = |number: usize| Rule {
        verbs: verbs.clone(),
        api_groups: texts(&["", "apps"]),
        resources: numbered(&format!("kind{number}-"), 20),
        ..Rule::default()
    };
    (0..30).map(rule).collect()
}

#[test]
fn decides_about_products_without_building_them() {
    let names = |of: &[Text]| Rule { resource_names: of.to_vec(), ..product(64) };
    let all = numbered("n", 64);
    for (case, held, required, missing) in [
        ("nothing held", vec![], product(64), 64u64.pow(4)),
        ("other rights held", namespace_admin_rules(), product(64), 64u64.pow(4)),
        ("all held", vec![product(64)], product(64), 0),
        ("held in halves", vec![names(&all[..32]), names(&all[32..])], product(64), 0),
        ("one name missing", vec![names(&all[..63])], product(64), 64u64.pow(3)),
        ("a part held of each list", vec![product(63)], product(64), 64u64.pow(4) - 63u64.pow(4)),
        ("a refused rule of 30 each", namespace_admin_rules(), product(30), 30u64.pow(4)),
        ("the lists of a role of a megabyte", namespace_admin_rules(), product(10_000), 10_000u64.pow(4)),
        ("more than can be counted", namespace_admin_rules(), product(100_000), u64::MAX),
    ] {
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        let required = [required];
        let (count, text) = budget.enter(|| {
            let uncovered = uncovered_by(held.iter(), &required).unwrap();
            (uncovered.iter().fold(0u64, |all, of| all.saturating_add(of.count())), Lines::of(&uncovered).unwrap())
        });
        assert_eq!(count, missing, "{case}");
        assert!(text.len() < 200 << 10, "{case}: {} bytes", text.len());
        assert_eq!(text.ends_with(" more permissions"), missing > 0, "{case}");
        // A step takes about ten nanoseconds.
        let most = if required[0].verbs.len() > 64 { 20_000_000 } else { 500_000 };
        assert!(budget.steps() < most && budget.memory() < 16 << 20, "{case}: {} {}", budget.steps(), budget.memory());
    }
}

#[test]
fn names_missing_permissions_up_to_a_limit() {
    let required = |count| [Rule { resource_names: numbered("n", count), ..product(1) }];
    let few = message(&[], &required(1000));
    assert_eq!((few.lines().count(), few.contains("more permissions")), (1000, false));
    let many = message(&[], &required(100_000));
    let named = many.lines().count() - 1;
    assert!(named > 1000 && many.len() < 150 << 10);
    assert!(many.ends_with(&format!("\nand {} more permissions", 100_000 - named)), "{named}");
    let long = Rule { verbs: texts(&[&"x".repeat(1 << 20), "get"]), ..product(1) };
    assert_eq!(message(&[], &[long]), "and 2 more permissions");
    // Within the limit, the message is the same as that of the naive algorithm.
    let required = [product(5), product(4)];
    assert_eq!(message(&[], &required), plain::lines(plain::uncovered(&[], &required)));
}

/// The held rules cover each element differently: the work is charged and bounded.
#[test]
fn bounds_work_for_rules_that_overlap_in_many_ways() {
    let lists = |number: usize, of: usize| {
        // Each rule covers all but one element of each list.
        let without = |prefix: &str, at: usize| {
            let mut texts = numbered(prefix, of);
            texts.remove(at % of);
            texts
        };
        Rule {
            verbs: without("v", number * 3),
            api_groups: without("g", number * 5),
            resources: without("r", number * 7),
            resource_names: without("n", number),
            paths: Vec::new(),
        }
    };
    for of in [16, 64, 200] {
        let held: Vec<Rule> = (0..of).map(|number| lists(number, of)).collect();
        let budget = WorkBudget::new(WorkLimits { steps: 3_000_000, memory: 8 << 20 });
        let result = budget.enter(|| uncovered_by(held.iter(), &[product(of)]).map(|of| of.len()));
        assert!(result.is_err() || budget.steps() <= 3_000_000, "{of}");
        assert!(budget.steps() < 6_000_000, "{of}: {}", budget.steps());
    }
}
