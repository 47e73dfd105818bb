//! The details of a Status.

use crate::Text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDetails {
    pub name: String,
    pub group: String,
    /// The kind, or in most errors the resource.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<StatusCause>,
    /// In seconds. Also sent as the `Retry-After` header if positive. Webhooks may send negative values.
    pub retry_after_seconds: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

impl StatusDetails {
    /// Creates details that name one object.
    pub fn of(group: &Text, kind: &str, name: &str, uid: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: group.to_string(),
            kind: kind.to_owned(),
            uid: uid.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn write_json(&self, out: &mut String, quoted: &dyn Fn(&str) -> String) {
        let mut separator = '{';
        let mut member = |out: &mut String, name: &str, value: &str| {
            out.push(std::mem::replace(&mut separator, ','));
            out.push_str(&format!("\"{name}\":{value}"));
        };
        for (name, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !value.is_empty() {
                member(out, name, &quoted(value));
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<String> = self.causes.iter().map(|cause| cause.to_json(quoted)).collect();
            member(out, "causes", &format!("[{}]", causes.join(",")));
        }
        if self.retry_after_seconds != 0 {
            member(out, "retryAfterSeconds", &self.retry_after_seconds.to_string());
        }
        if separator == '{' {
            out.push('{');
        }
        out.push('}');
    }
}

impl StatusCause {
    fn to_json(&self, quoted: &dyn Fn(&str) -> String) -> String {
        let members: Vec<String> = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)]
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("\"{name}\":{}", quoted(value)))
            .collect();
        format!("{{{}}}", members.join(","))
    }
}
