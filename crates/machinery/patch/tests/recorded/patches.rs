//! JSON patch, merge patch and strategic merge patch.

use std::collections::HashMap;

use binnacle_meta::Status;
use binnacle_patch::{json_patch, merge, strategic};
use binnacle_schema::{Value, json};

use crate::cases::{FILLED, Request, cases, content, decoded, finished, message};

/// Applies a patch to an object; `None` for other content types.
fn patched(content_type: &str, live: &Value, patch: &Value) -> Option<Result<Value, Status>> {
    let live = live.clone();
    Some(match content_type {
        "application/json-patch+json" => {
            json_patch::parse(json::to_string(patch).as_bytes()).and_then(|patch| patch.apply(live))
        }
        "application/merge-patch+json" => Ok(merge::apply(live, patch)),
        "application/strategic-merge-patch+json" => {
            let message = message(&live)?;
            strategic::apply(live, patch, message).map_err(|error| error.to_status())
        }
        _ => return None,
    })
}

/// Returns the value at a JSON pointer.
fn at<'v>(object: &'v Value, pointer: &str) -> Option<&'v Value> {
    pointer.split('/').skip(1).try_fold(object, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match value {
            Value::List(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(&step),
        }
    })
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn patches_match_recordings() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for case in cases("patch") {
        let name = case.str_at(&["name"]);
        let mut known: HashMap<String, Value> = HashMap::new();
        for step in case.list_at(&["steps"]) {
            let request = Request::of(step);
            let name_in_path = step.str_at(&["path"]).rsplit('/').next().unwrap_or_default().to_owned();
            let status = step.int_at(&["expect", "status"]).unwrap_or_default();
            let body = step.at(&["expect", "body"]).cloned().unwrap_or_default();
            if step.str_at(&["do"]) == "POST" {
                let created = decoded(&body).filter(|_| step.get("compare").is_none());
                let created = created.or_else(|| {
                    let sent = step.get("body")?;
                    Some(finished(sent.clone(), None, message(sent)?))
                });
                if let Some(created) = created.filter(|created| !FILLED.contains(&created.str_at(&["kind"]))) {
                    known.insert(created.str_at(&["metadata", "name"]).to_owned(), created);
                }
                continue;
            }
            let (Some(patch), Some(live)) = (step.get("body"), known.get(&name_in_path)) else { continue };
            let Some(got) = patched(step.str_at(&["headers", "Content-Type"]), live, patch) else { continue };
            // The server rejects these results after patching.
            let failed = got.as_ref().err().map(|status| (i64::from(status.code()), status.message().to_owned()));
            if status >= 400 && failed.is_none() || request.subresource == "scale" {
                known.clear();
                continue;
            }
            checked += 1;
            match got {
                Err(_) => {
                    let want = (status, body.str_at(&["message"]).to_owned());
                    if failed.as_ref() != Some(&want) {
                        wrong.push(format!("{name}: got {failed:?}, want {want:?}"));
                    }
                }
                Ok(object) => {
                    let object = finished(object, Some(live), message(live).unwrap());
                    if step.str_at(&["compare"]) == "subset" {
                        for (pointer, want) in body.as_object().into_iter().flat_map(|selected| selected.iter()) {
                            if !pointer.contains("metadata/managedFields") && at(&object, pointer) != Some(want) {
                                let show = |value: Option<&Value>| value.map(json::to_string);
                                wrong.push(format!(
                                    "{name} {pointer}: got {:?}, want {:?}",
                                    show(at(&object, pointer)),
                                    show(Some(want))
                                ));
                            }
                        }
                    } else if let Some(want) = decoded(&body)
                        && content(&object) != content(&want)
                    {
                        let show = |value: &Value| json::to_string(&content(value));
                        wrong.push(format!("{name}: got {}\n  want {}", show(&object), show(&want)));
                    }
                    known.insert(name_in_path, object);
                }
            }
        }
    }
    assert!(checked > 20, "{checked} patches are too few");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}
