//! Parts of responses that differ between two servers, or between two responses of one server, without meaning.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::template::regex;

/// The source file of a scheme in messages. The directories before `pkg` are those of the machine that built the program.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| regex(r#"(in scheme \\*")[^"]*?/(pkg/[A-Za-z0-9_/.-]+\.go:\d+)"#));

/// The type of an object in a rule, to whose name kube-apiserver adds a number of its own.
static RULE_TYPE: LazyLock<Regex> = LazyLock::new(|| regex(r"\bselfType\d+\b"));

/// Removes the directories of a build, and numbers of a process, from the texts of a response.
pub(crate) fn normalize_texts(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("in scheme ") => {
            *text = SCHEME.replace_all(text, "$1$2").into_owned();
        }
        Value::String(text) if text.contains("selfType") => {
            *text = RULE_TYPE.replace_all(text, "selfType").into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_texts),
        Value::Object(members) => members.values_mut().for_each(normalize_texts),
        _ => {}
    }
}

/// Sorts the errors of an apply patch, which kube-apiserver collects in the order of a map.
fn sort_apply_errors(body: &mut Value) {
    const HEAD: &str = "failed to create typed patch object";
    let Some(message) = body["message"].as_str().filter(|message| message.starts_with(HEAD)) else { return };
    let mut lines: Vec<&str> = message.split('\n').collect();
    lines[1..].sort_unstable();
    body["message"] = Value::from(lines.join("\n"));
}

const RESOURCES: &str = "APIResourceList";
const VERSIONS: &str = "APIVersions";

/// Returns true if the bytes of a document mean nothing, because each server writes another order or its own address.
pub(crate) fn has_own_bytes(body: &Value) -> bool {
    body["kind"] == RESOURCES || body["kind"] == VERSIONS
}

/// Replaces a server's own address, and sorts lists whose order is random in kube-apiserver.
pub(crate) fn normalize(body: &mut Value) {
    if body["kind"] == "Status" {
        normalize_texts(body);
        sort_apply_errors(body);
    }
    match body["kind"].as_str() {
        // Each server names its own address.
        Some(VERSIONS) => {
            let addresses = body["serverAddressByClientCIDRs"].as_array_mut();
            for address in addresses.into_iter().flatten() {
                address["serverAddress"] = Value::from("<address>");
            }
        }
        // Custom resources are collected in the order of a map.
        Some(RESOURCES) => {
            if let Some(resources) = body.get_mut("resources") {
                sort(resources, |resource| resource["name"].to_string());
            }
            // The description of a protobuf response depends on the first resource.
            if let Some(why) = body.get_mut("undecodable") {
                *why = Value::from("<undecodable>");
            }
        }
        // Components are probed concurrently.
        Some("ComponentStatusList") => {
            // In a described protobuf response, the items are names.
            sort(&mut body["items"], |item| item.pointer("/metadata/name").unwrap_or(item).to_string());
        }
        // Rules are collected in the order of a map.
        Some("SelfSubjectRulesReview") => {
            for name in ["resourceRules", "nonResourceRules"] {
                if body["status"][name].is_array() {
                    sort(&mut body["status"][name], Value::to_string);
                }
            }
        }
        _ => {}
    }
}

fn sort(list: &mut Value, key: impl Fn(&Value) -> String) {
    if let Value::Array(items) = list {
        items.sort_by_cached_key(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{normalize, normalize_texts};

    #[test]
    fn removes_directories_of_the_build() {
        for (from, to) in [
            (
                r#"in scheme "deps/x/pkg/api/legacyscheme/scheme.go:30""#,
                r#"in scheme "pkg/api/legacyscheme/scheme.go:30""#,
            ),
            (r#"in scheme \"k8s.io/y/pkg/a/register.go:27\"}"#, r#"in scheme \"pkg/a/register.go:27\"}"#),
            (r#"in scheme "pkg/a/register.go:27""#, r#"in scheme "pkg/a/register.go:27""#),
            ("applied to '(selfType178414496.a, string)'", "applied to '(selfType.a, string)'"),
            ("no kind in scheme x", "no kind in scheme x"),
        ] {
            let mut got = json!({"message": from});
            normalize_texts(&mut got);
            assert_eq!(got["message"], to);
        }
    }

    #[test]
    fn sorts_random_lists_and_hides_own_addresses() {
        let statuses = |names: [&str; 2]| {
            let items = names.map(|name| json!({"metadata": {"name": name}}));
            json!({"kind": "ComponentStatusList", "items": items})
        };
        let rules = |verbs: [&str; 2]| {
            let rules = verbs.map(|verb| json!({"verbs": [verb]}));
            json!({"kind": "SelfSubjectRulesReview", "status": {"resourceRules": rules, "nonResourceRules": []}})
        };
        let versions =
            |address: &str| json!({"kind": "APIVersions", "serverAddressByClientCIDRs": [{"serverAddress": address}]});
        let pods = json!({"kind": "PodList", "items": [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]});
        for (from, to) in [
            (statuses(["b", "a"]), statuses(["a", "b"])),
            (
                json!({"kind": "ComponentStatusList", "items": ["b", "a"]}),
                json!({"kind": "ComponentStatusList", "items": ["a", "b"]}),
            ),
            (rules(["list", "get"]), rules(["get", "list"])),
            (versions("10.0.0.1:6443"), versions("<address>")),
            (
                json!({"kind": "APIResourceList", "resources": [{"name": "b"}, {"name": "a"}]}),
                json!({"kind": "APIResourceList", "resources": [{"name": "a"}, {"name": "b"}]}),
            ),
            (
                json!({"kind": "APIResourceList", "undecodable": "wire type 7"}),
                json!({"kind": "APIResourceList", "undecodable": "<undecodable>"}),
            ),
            (pods.clone(), pods),
            (json!("text"), json!("text")),
        ] {
            let mut got: Value = from;
            normalize(&mut got);
            assert_eq!(got, to);
        }
    }
}
