//! Users in the specs and statuses of reviews.

use binnacle_fields::authentication::v1::UserInfo;
use binnacle_fields::authorization::v1::SubjectAccessReviewSpec as Spec;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Text;
use binnacle_request::User;
use binnacle_schema::{Object, Value};
use binnacle_work::pace;

/// Returns the UserInfo of `authentication.k8s.io`.
pub(super) fn info(user: &User) -> Value {
    let mut object = Value::Object(Object::new());
    let mut info = FieldMut::<UserInfo>::root(&mut object);
    for (field, text) in [(UserInfo::USERNAME, &user.name), (UserInfo::UID, &user.uid)] {
        if !text.is_empty() {
            info.set(field, text.clone());
        }
    }
    if !user.groups.is_empty() {
        info.set(UserInfo::GROUPS, user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect();
        info.set(UserInfo::EXTRA, Value::Object(extra));
    }
    object
}

/// Returns the user of a spec.
pub(super) fn from_spec(spec: FieldRef<Spec>) -> User {
    let text = |value: &Value| if let Value::Str(text) = value { Some(text.clone()) } else { None };
    let texts = |value: &Value| -> Vec<Text> {
        let list = value.as_list().unwrap_or(&[]);
        pace(list.len() as u64);
        list.iter().filter_map(text).collect()
    };
    let extra = spec.at(Spec::EXTRA).object().into_iter().flat_map(Object::iter);
    User {
        name: spec.at(Spec::USER).str().into(),
        uid: spec.at(Spec::UID).str().into(),
        groups: texts(spec.at(Spec::GROUPS).value()),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}
