//! Server-side apply.

use std::collections::HashMap;

use binnacle_patch::apply::{self, Apply, ApplyError, Versions};
use binnacle_schema::{Message, Value, json};

use crate::cases::{FILLED, Request, cases, content, decoded, entries, finished, message, update};

/// All recorded writes are in one version.
struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        if object.str_at(&["apiVersion"]) != api_version {
            return None;
        }
        Some((object.clone(), message(object)?))
    }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn applies_match_recordings() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for area in ["apply", "builtin-apply"] {
        for case in cases(area) {
            let mut known: HashMap<String, Value> = HashMap::new();
            for step in case.list_at(&["steps"]) {
                let Some(body) = step.at(&["expect", "body"]) else {
                    known.clear();
                    continue;
                };
                let request = Request::of(step);
                if request.subresource == "scale" {
                    known.clear();
                    continue;
                }
                let Some(config) = step.get("body").filter(|_| request.is_apply()) else {
                    match decoded(body) {
                        Some(answer) => _ = known.insert(request.key(&answer), answer),
                        // A write that was not recorded completely.
                        None if step.str_at(&["do"]) != "GET" => known.clear(),
                        None => {}
                    }
                    continue;
                };
                let Some(message) = message(config) else { continue };
                if config.get("metadata").is_none() {
                    continue;
                }
                let create = step.int_at(&["expect", "status"]) == Some(201);
                let live = known.get(&request.key(config)).filter(|_| !create);
                if step.get("compare").is_some() || (live.is_none() && !create && body.str_at(&["kind"]) != "Status") {
                    known.clear();
                    continue;
                }
                let force = step.str_at(&["query", "force"]) == "true";
                let request_to_apply =
                    Apply { update: update(&request, config, message), force, versions: &OneVersion };
                let got = apply::apply(&request_to_apply, live, config).map(|applied| applied.object);
                let at = format!("{area}/{} {}", case.str_at(&["name"]), step.str_at(&["path"]));
                let status = step.int_at(&["expect", "status"]).unwrap_or_default();
                match got {
                    Ok(object) if status < 300 => {
                        let object = finished(object, live, message);
                        let want = decoded(body).unwrap();
                        checked += 1;
                        if entries(&object) != entries(&want) {
                            wrong.push(format!("{at}\n  got  {:?}\n  want {:?}", entries(&object), entries(&want)));
                        }
                        if content(&object) != content(&want) && !FILLED.contains(&want.str_at(&["kind"])) {
                            let show = |value: &Value| json::to_string(&content(value));
                            wrong.push(format!("{at}\n  got  {}\n  want {}", show(&object), show(&want)));
                        }
                        known.insert(request.key(&want), want);
                    }
                    Err(error @ ApplyError::Conflicts(_)) => {
                        checked += 1;
                        let (got, want) = (error.to_string(), body.str_at(&["message"]));
                        if status != 409 || got != want {
                            wrong.push(format!("{at}\n  got  {got}\n  want {want}"));
                        }
                    }
                    Err(error) => {
                        checked += 1;
                        let code = if matches!(error, ApplyError::HasManagers) { 400 } else { 500 };
                        let (got, want) = (error.to_string(), body.str_at(&["message"]));
                        if status != code || got != want {
                            wrong.push(format!("{at}\n  got  {got}\n  want {want}"));
                        }
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    assert!(checked > 100, "{checked} requests are too few");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}
