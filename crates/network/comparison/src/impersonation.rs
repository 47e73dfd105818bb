//! Requests in the name of other users.

use binnacle_client::path::escape;
use binnacle_request::User;
use serde_json::{Map, Value};

use crate::endpoint::UNRESERVED;

/// Returns the headers that make a request one of this user.
pub(crate) fn headers(user: &User) -> Map<String, Value> {
    let mut headers = Map::new();
    headers.insert("Impersonate-User".to_owned(), Value::from(user.name.as_str()));
    if !user.groups.is_empty() {
        let groups = user.groups.iter().map(|group| Value::from(group.as_str())).collect();
        headers.insert("Impersonate-Group".to_owned(), Value::Array(groups));
    }
    if !user.uid.is_empty() {
        headers.insert("Impersonate-Uid".to_owned(), Value::from(user.uid.as_str()));
    }
    for (name, values) in &user.extra {
        let header = format!("Impersonate-Extra-{}", escape(name, UNRESERVED));
        headers.insert(header, values.iter().map(|value| Value::from(value.as_str())).collect());
    }
    headers
}

#[cfg(test)]
mod tests {
    use binnacle_request::User;
    use serde_json::json;

    use super::headers;

    #[test]
    fn repeated_requests_impersonate_their_caller() {
        let mut user = User::new("system:serviceaccount:a:b", &["g", "h"]);
        user.uid = "u".into();
        user.extra.insert("example.com/Key".into(), vec!["x".into(), "y".into()]);
        let want = json!({"Impersonate-User": "system:serviceaccount:a:b", "Impersonate-Group": ["g", "h"],
            "Impersonate-Uid": "u", "Impersonate-Extra-example.com%2FKey": ["x", "y"]});
        assert_eq!(serde_json::Value::Object(headers(&user)), want);
        let anonymous = User::new(User::ANONYMOUS, &[]);
        assert_eq!(headers(&anonymous).len(), 1);
    }
}
