//! The managers of the fields that creates, updates and patches change.

use std::collections::HashMap;

use binnacle_patch::apply;
use binnacle_schema::Value;

use crate::cases::{FILLED, Request, cases, decoded, entries, message, update};

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn updates_match_recordings() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for area in [
        "builtin-crud",
        "deletion",
        "lists",
        "patch",
        "status",
        "builtin-apply",
        "apply",
        "metadata",
        "services",
        "pods",
    ] {
        for case in cases(area) {
            let mut known: HashMap<String, Value> = HashMap::new();
            for step in case.list_at(&["steps"]) {
                let body = step.at(&["expect", "body"]);
                let Some(body) = body.filter(|body| body.at(&["metadata", "managedFields"]).is_some()) else {
                    continue;
                };
                let Some(answer) = decoded(body) else { continue };
                let Some(message) = message(&answer) else { continue };
                let request = Request::of(step);
                let verb = step.str_at(&["do"]);
                let live = known.get(&request.key(&answer));
                if FILLED.contains(&answer.str_at(&["kind"])) || case.str_at(&["name"]) == "generate-name-cluster" {
                    continue;
                }
                let writes = matches!(verb, "POST" | "PUT" | "PATCH") && !request.is_apply();
                if writes && (verb == "POST" || live.is_some()) {
                    let mut object = answer.clone();
                    let sent = step.at(&["body", "metadata", "managedFields"]).cloned();
                    let sent = sent.or_else(|| live.and_then(|live| live.at(&["metadata", "managedFields"]).cloned()));
                    let metadata = object.get_mut("metadata").unwrap().make_object();
                    metadata.remove("managedFields");
                    if let Some(sent) = sent {
                        metadata.insert("managedFields", sent);
                    }
                    let api_version = answer.clone();
                    apply::track_update(&update(&request, &api_version, message), live, &mut object);
                    checked += 1;
                    let (got, want) = (entries(&object), entries(&answer));
                    if got != want {
                        let name = case.str_at(&["name"]);
                        wrong.push(format!(
                            "{area}/{name} {verb} {}\n  got  {got:?}\n  want {want:?}",
                            step.str_at(&["path"])
                        ));
                    }
                }
                known.insert(request.key(&answer), answer);
            }
        }
    }
    assert!(checked > 100, "{checked} writes are too few");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}
