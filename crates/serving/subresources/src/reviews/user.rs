//! Users in the specs and statuses of reviews.

use binnacle_meta::Text;
use binnacle_request::User;
use binnacle_schema::{Object, Value};
use binnacle_work::pace;

/// Returns the UserInfo of `authentication.k8s.io`.
pub(super) fn info(user: &User) -> Value {
    let mut info = Object::new();
    for (member, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(member, text.clone());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect();
        info.insert("extra", extra);
    }
    Value::Object(info)
}

/// Returns the user of a spec.
pub(super) fn named(spec: &Value) -> User {
    let text = |value: &Value| if let Value::Str(text) = value { Some(text.clone()) } else { None };
    let texts = |value: &Value| -> Vec<Text> {
        let list = value.as_list().unwrap_or(&[]);
        pace(list.len() as u64);
        list.iter().filter_map(text).collect()
    };
    let extra = spec.object_at(&["extra"]).into_iter().flat_map(|extra| extra.iter());
    User {
        name: spec.str_at(&["user"]).into(),
        uid: spec.str_at(&["uid"]).into(),
        groups: spec.get("groups").map(texts).unwrap_or_default(),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}
