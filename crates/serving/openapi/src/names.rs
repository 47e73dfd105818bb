//! IDs and tags of operations, derived from the path and the operation's name as in kube-apiserver.

/// Returns `s` in camel case, without punctuation; `capital` applies to the first letter.
fn camel(s: &str, capital: bool) -> String {
    let mut out = String::with_capacity(s.len());
    let mut upper = capital;
    for (at, c) in s.char_indices() {
        if c.is_alphabetic() || c == '_' || (at != 0 && c.is_numeric()) {
            if upper {
                out.extend(c.to_uppercase());
            } else {
                out.push(c);
            }
            upper = false;
        } else {
            upper = true;
        }
    }
    out
}

/// Returns the id and tag of the operation `verb` + `rest` at `path`; group and version are inserted between the two.
pub(crate) fn id_and_tag(verb: &str, rest: &str, path: &str) -> (String, String) {
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match parts.next() {
        Some("api") => (Some("core"), parts.next()),
        Some("apis") => (parts.next(), parts.next()),
        first => {
            let tag = camel(first.unwrap_or_default(), false);
            return (format!("{verb}{}", camel(rest, true)), tag);
        }
    };
    let Some(group) = group else {
        return (format!("{verb}{}", camel(rest, true)), "apis".to_owned());
    };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let (mut id, mut tag) = (format!("{verb}{}", camel(group, true)), camel(group, false));
    if let Some(version) = version {
        id.push_str(&camel(version, true));
        tag.push('_');
        tag.push_str(&camel(version, false));
    }
    id.push_str(&camel(rest, true));
    (id, tag)
}

/// Returns the name with an uppercase first letter, as subresources appear in ids.
pub(crate) fn title(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns the article before a noun, with spaces around it; plurals have only a space.
pub(crate) fn article(noun: &str) -> &'static str {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return " ";
    }
    match noun.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('a' | 'e' | 'i' | 'o' | 'u') => " an ",
        _ => " a ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_ids_and_tags() {
        for (verb, rest, path, id, tag) in [
            ("list", "PodForAllNamespaces", "/api/v1/pods", "listCoreV1PodForAllNamespaces", "core_v1"),
            (
                "delete",
                "collectionNamespacedEvent",
                "/apis/events.k8s.io/v1/namespaces/{namespace}/events",
                "deleteEventsV1CollectionNamespacedEvent",
                "events_v1",
            ),
            (
                "read",
                "FlowSchemaStatus",
                "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas/{name}/status",
                "readFlowcontrolApiserverV1beta3FlowSchemaStatus",
                "flowcontrolApiserver_v1beta3",
            ),
            ("get", "APIVersions", "/api/", "getCoreAPIVersions", "core"),
            ("get", "APIVersions", "/apis/", "getAPIVersions", "apis"),
            ("get", "APIGroup", "/apis/apps/", "getAppsAPIGroup", "apps"),
            ("get", "CodeVersion", "/version/", "getCodeVersion", "version"),
            ("get", "X", "/.well-known/openid-configuration/", "getX", "WellKnown"),
        ] {
            assert_eq!(id_and_tag(verb, rest, path), (id.to_owned(), tag.to_owned()));
        }
    }

    #[test]
    fn chooses_articles_and_titles() {
        for (noun, want) in [("Pod", " a "), ("Ingress", " an "), ("Endpoints", " "), ("StorageClass", " a ")] {
            assert_eq!(article(noun), want, "{noun}");
        }
        assert_eq!(title("ephemeralcontainers"), "Ephemeralcontainers");
        assert_eq!(title(""), "");
    }
}
