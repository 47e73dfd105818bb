//! The request to a webhook: an AdmissionReview with the fields in kube-apiserver's order.

use binnacle_meta::{GroupVersionKind, GroupVersionResource};
use binnacle_registry::admission::Attributes;
use binnacle_request::User;
use binnacle_schema::json;
use bytes::Bytes;

/// The supported versions of reviews. They only differ in name and in the validation of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// The `request` of a review.
pub(crate) struct ReviewRequest<'a> {
    pub(crate) version: ReviewVersion,
    pub(crate) uid: &'a str,
    pub(crate) attributes: &'a Attributes,
    /// The kind and resource that the webhook matched, whose version the objects have.
    pub(crate) kind: &'a GroupVersionKind,
    pub(crate) resource: &'a GroupVersionResource,
    /// Objects and options as JSON; `null` if absent.
    pub(crate) object: &'a [u8],
    pub(crate) old_object: &'a [u8],
    pub(crate) options: &'a [u8],
}

impl ReviewVersion {
    /// Returns the first of a webhook's versions that is supported.
    pub(crate) fn first_of<'a>(versions: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        versions.into_iter().find_map(|version| match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

impl ReviewRequest<'_> {
    /// Encodes the review as the request body.
    pub(crate) fn to_json(&self) -> Bytes {
        let attributes = self.attributes;
        let mut out = Vec::with_capacity(1024 + self.object.len() + self.old_object.len());
        out.extend_from_slice(br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/"#);
        out.extend_from_slice(self.version.as_str().as_bytes());
        out.extend_from_slice(br#"","request":{"uid":"#);
        json::write_string(self.uid, &mut out);
        write_kind(br#","kind":"#, self.kind, &mut out);
        write_resource(br#","resource":"#, self.resource, &mut out);
        write_some(br#","subResource":"#, &attributes.subresource, &mut out);
        write_kind(br#","requestKind":"#, &attributes.kind, &mut out);
        write_resource(br#","requestResource":"#, &attributes.resource, &mut out);
        write_some(br#","requestSubResource":"#, &attributes.subresource, &mut out);
        write_some(br#","name":"#, &attributes.name, &mut out);
        write_some(br#","namespace":"#, &attributes.namespace, &mut out);
        out.extend_from_slice(br#","operation":""#);
        out.extend_from_slice(attributes.operation.as_str().as_bytes());
        out.extend_from_slice(br#"","userInfo":"#);
        write_user(&attributes.user, &mut out);
        for (name, text) in [(&br#","object":"#[..], self.object), (br#","oldObject":"#, self.old_object)] {
            out.extend_from_slice(name);
            out.extend_from_slice(text);
        }
        out.extend_from_slice(br#","dryRun":"#);
        out.extend_from_slice(if attributes.dry_run { b"true" } else { b"false" });
        out.extend_from_slice(br#","options":"#);
        out.extend_from_slice(self.options);
        out.extend_from_slice(b"}}\n");
        Bytes::from(out)
    }
}

fn write_some(name: &[u8], text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        out.extend_from_slice(name);
        json::write_string(text, out);
    }
}

fn write_three(name: &[u8], members: [(&[u8], &str); 3], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    for (member, text) in members {
        out.extend_from_slice(member);
        json::write_string(text, out);
    }
    out.push(b'}');
}

fn write_kind(name: &[u8], kind: &GroupVersionKind, out: &mut Vec<u8>) {
    let members =
        [(&br#"{"group":"#[..], kind.group.as_str()), (br#","version":"#, &kind.version), (br#","kind":"#, &kind.kind)];
    write_three(name, members, out);
}

fn write_resource(name: &[u8], resource: &GroupVersionResource, out: &mut Vec<u8>) {
    let members = [
        (&br#"{"group":"#[..], resource.group.as_str()),
        (br#","version":"#, &resource.version),
        (br#","resource":"#, &resource.resource),
    ];
    write_three(name, members, out);
}

fn write_texts<'a>(texts: impl IntoIterator<Item = &'a str>, out: &mut Vec<u8>) {
    let mut separator = b'[';
    for text in texts {
        out.push(std::mem::replace(&mut separator, b','));
        json::write_string(text, out);
    }
    if separator == b'[' {
        out.push(b'[');
    }
    out.push(b']');
}

/// Writes a user without empty fields.
fn write_user(user: &User, out: &mut Vec<u8>) {
    let mut separator = b'{';
    let mut member = |name: &[u8], out: &mut Vec<u8>| {
        out.push(std::mem::replace(&mut separator, b','));
        out.extend_from_slice(name);
    };
    for (name, text) in [(&br#""username":"#[..], &user.name), (br#""uid":"#, &user.uid)] {
        if !text.is_empty() {
            member(name, out);
            json::write_string(text, out);
        }
    }
    if !user.groups.is_empty() {
        member(br#""groups":"#, out);
        write_texts(user.groups.iter().map(|group| group.as_str()), out);
    }
    if !user.extra.is_empty() {
        member(br#""extra":"#, out);
        let mut separator = b'{';
        for (key, values) in &user.extra {
            out.push(std::mem::replace(&mut separator, b','));
            json::write_string(key, out);
            out.push(b':');
            write_texts(values.iter().map(|value| value.as_str()), out);
        }
        out.push(b'}');
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::creation;

    /// Checks the `request` of a review.
    fn check(attributes: &Attributes, want: &str) {
        let request = ReviewRequest {
            version: ReviewVersion::V1Beta1,
            uid: "i",
            attributes,
            kind: &GroupVersionKind::new("g", "v2", "K"),
            resource: &GroupVersionResource::new("g", "v2", "ks"),
            object: b"{}",
            old_object: b"null",
            options: b"null",
        };
        let head = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":"#;
        assert_eq!(String::from_utf8_lossy(&request.to_json()), format!("{head}{want}}}\n"));
    }

    #[test]
    fn requests_omit_empty_fields() {
        let attributes = creation("g", "K", "ks");
        let matched =
            r#""kind":{"group":"g","version":"v2","kind":"K"},"resource":{"group":"g","version":"v2","resource":"ks"}"#;
        let kind = r#""requestKind":{"group":"g","version":"v1","kind":"K"}"#;
        let resource = r#""requestResource":{"group":"g","version":"v1","resource":"ks"}"#;
        let user = r#""userInfo":{"username":"u","groups":["g"]}"#;
        let rest = r#""object":{},"oldObject":null,"dryRun":false,"options":null"#;
        check(
            &attributes,
            &format!(
                r#"{{"uid":"i",{matched},{kind},{resource},"name":"x","namespace":"n","operation":"CREATE",{user},{rest}}}"#
            ),
        );
        let anonymous = Attributes {
            subresource: "s".into(),
            name: "".into(),
            namespace: "".into(),
            user: User::default(),
            dry_run: true,
            ..attributes
        };
        let rest = rest.replace("false", "true");
        check(
            &anonymous,
            &format!(
                r#"{{"uid":"i",{matched},"subResource":"s",{kind},{resource},"requestSubResource":"s","operation":"CREATE","userInfo":{{}},{rest}}}"#
            ),
        );
    }
}
