//! Decoding of webhook responses: reviews of one kind and version, as leniently as kube-apiserver, with its errors.

use binnacle_meta::{GroupVersion, go_quote};
use binnacle_schema::{Limits, Object, Value, json, yaml};

/// The location in kube-apiserver's source that registers the kinds of responses.
const SCHEME: &str = "pkg/util/webhook/client.go:71";

/// The expected kind of review.
#[derive(Clone, Copy, Debug)]
pub struct ReviewKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl ReviewKind<'_> {
    /// Decodes a body in JSON or YAML. A missing kind or version counts as the expected one and is not filled in.
    /// `decode` checks the types of a document by its version and kind: a document of another kind must be decodable
    /// before it is rejected.
    pub fn read(
        &self,
        body: &[u8],
        limits: &Limits,
        decode: impl FnOnce(&GroupVersion, &str, &Value) -> Result<(), String>,
    ) -> Result<Value, String> {
        let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
        let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let tree = if is_json {
            json::parse(body, limits).map_err(|error| unread(error.to_string()))?
        } else {
            yaml::parse(body, limits).map_err(|error| error.to_string())?.0
        };
        json::check_type_meta(&tree).map_err(unread)?;
        let api_version = tree.str_at(&["apiVersion"]);
        let given = match api_version {
            "" => GroupVersion::new(self.group, self.version),
            api_version => GroupVersion::parse(api_version)
                .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?,
        };
        let kind = Some(tree.str_at(&["kind"])).filter(|kind| !kind.is_empty()).unwrap_or(self.kind);
        if given.group != self.group || given.version != self.version || kind != self.kind {
            if self.is_known(&given, kind) {
                decode(&given, kind, &tree)?;
            }
            return Err(self.wrong_kind_error(&given, kind));
        }
        Ok(if tree.is_null() { Value::Object(Object::new()) } else { tree })
    }

    /// Returns true for a kind that kube-apiserver could decode.
    fn is_known(&self, given: &GroupVersion, kind: &str) -> bool {
        // The kinds of `meta.k8s.io/v1` that every API group contains.
        const IN_ALL_GROUPS: [&str; 7] = [
            "WatchEvent",
            "ListOptions",
            "GetOptions",
            "DeleteOptions",
            "CreateOptions",
            "UpdateOptions",
            "PatchOptions",
        ];
        const UNVERSIONED: [&str; 5] = ["Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"];
        self.is_in_group(given) && (kind == self.kind || IN_ALL_GROUPS.contains(&kind))
            || given.group.is_empty() && given.version == "v1" && UNVERSIONED.contains(&kind)
    }

    fn is_in_group(&self, given: &GroupVersion) -> bool {
        given.group == self.group && matches!(given.version.as_str(), "v1" | "v1beta1")
    }

    /// Returns the error for a document of another kind.
    fn wrong_kind_error(&self, given: &GroupVersion, kind: &str) -> String {
        if self.is_known(given, kind) {
            let from = if self.is_in_group(given) && kind != self.kind { "v1" } else { given.version.as_str() };
            let (version, expected) = (self.version, self.kind);
            return format!("converting ({from}.{kind}) to ({version}.{expected}): unknown conversion");
        }
        format!(
            "no kind {} is registered for version {} in scheme {}",
            go_quote(kind),
            go_quote(&given.to_string()),
            go_quote(SCHEME)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_reviews_of_the_expected_kind_and_version() {
        let review = ReviewKind { group: "g.io", version: "v1", kind: "Review" };
        let typed = "couldn't get version/kind; json parse error: json: cannot unmarshal";
        let refuse = |given: &GroupVersion, kind: &str, tree: &Value| match tree.get("bad") {
            Some(_) => Err(format!("{} {kind} cannot be read", given.version)),
            None => Ok(()),
        };
        let no_kind = |kind: &str, version: &str| {
            format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{SCHEME}\"")
        };
        for (body, want) in [
            (r#"{"apiVersion":"g.io/v1","kind":"Review","a":1}"#, Ok(())),
            ("apiVersion: g.io/v1\nkind: Review\n", Ok(())),
            ("{}", Ok(())),
            ("", Ok(())),
            (
                r#"{"apiVersion":"g.io/v1beta1"}"#,
                Err("converting (v1beta1.Review) to (v1.Review): unknown conversion".into()),
            ),
            (
                r#"{"apiVersion":"v1","kind":"Status"}"#,
                Err("converting (v1.Status) to (v1.Review): unknown conversion".into()),
            ),
            (r#"{"apiVersion":"g.io/v1beta1","bad":1}"#, Err("v1beta1 Review cannot be read".into())),
            (r#"{"apiVersion":"g.io/v9","kind":"Review"}"#, Err(no_kind("Review", "g.io/v9"))),
            (r#"{"apiVersion":"g.io/v1","kind":"Other"}"#, Err(no_kind("Other", "g.io/v1"))),
            (r#"{"kind":7}"#, Err(format!("{typed} number into Go struct field .kind of type string"))),
            (
                "a/b/c",
                Err(format!(
                    "{typed} string into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
                )),
            ),
        ] {
            let limits = Limits { max_bytes: 1 << 20, max_depth: 16, max_yaml_nodes: 100, max_memory: usize::MAX };
            assert_eq!(review.read(body.as_bytes(), &limits, refuse).map(drop), want, "{body}");
        }
    }
}
