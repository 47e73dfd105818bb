//! Requests that a server refuses before a handler sees them: callers that it does not know or that lack permissions,
//! unknown paths, methods, media types and malformed bodies. Writes among them are dry runs.

use serde_json::{Map, Value, json};

use crate::endpoint::Outgoing;
use crate::subject::{Kind, Subject};

/// A user without any permissions but those of all users.
const NOBODY: &str = "binnacle-compare-nobody";
const PODS: &str = "/api/v1/namespaces/default/pods";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// More than a server accepts in a body.
const LARGE: usize = 4 << 20;

/// Returns the requests.
pub(super) fn generate() -> Vec<Subject> {
    let mut all = callers();
    all.extend(permissions());
    all.extend(paths_and_methods());
    all.extend(bodies());
    all.extend(token_reviews());
    all
}

fn subject(outgoing: Outgoing) -> Subject {
    Subject::any(Kind::Document, outgoing)
}

fn with_headers(outgoing: Outgoing, headers: Value) -> Outgoing {
    let mut all: Map<String, Value> = outgoing.headers.clone();
    all.extend(headers.as_object().cloned().unwrap_or_default());
    Outgoing { headers: all, ..outgoing }
}

/// Tokens that no server issued, and anonymous requests.
fn callers() -> Vec<Subject> {
    let mut all = Vec::new();
    let unsigned = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJub2JvZHkifQ.c2lnbmF0dXJl";
    for target in [PODS, "/api", "/apis/apps/v1", "/version", "/openapi/v2", "/none"] {
        for token in ["", "unknown", unsigned] {
            all.push(subject(Outgoing { token: Some(token.to_owned()), ..Outgoing::empty("GET", target) }));
        }
        for authorization in ["Basic bm9ib2R5Om5vbmU=", "Bearer", "Bearer ", "Nothing"] {
            all.push(subject(with_headers(Outgoing::empty("GET", target), json!({"Authorization": authorization}))));
        }
    }
    all
}

/// Requests of a user without permissions, and impersonation that is not allowed or incomplete.
fn permissions() -> Vec<Subject> {
    let body = json!({"metadata": {"name": "x"}});
    let requests = || {
        let mut all = vec![
            Outgoing::empty("GET", "/metrics"),
            Outgoing::empty("GET", "/none"),
            Outgoing::empty("GET", "/api/v1/nodes/x/proxy/y"),
            Outgoing::empty("GET", "/apis/none.example.com/v1/things"),
            Outgoing::empty("GET", &format!("{PODS}/x/log")),
            Outgoing::json("POST", &format!("{PODS}/x/eviction?dryRun=All"), &body),
        ];
        for resource in
            ["/api/v1/namespaces/default/secrets", "/apis/apps/v1/namespaces/default/deployments", "/api/v1/nodes"]
        {
            all.push(Outgoing::empty("GET", resource));
            all.push(Outgoing::empty("GET", &format!("{resource}/x")));
            all.push(Outgoing::empty("GET", &format!("{resource}?watch=1")));
            all.push(Outgoing::json("POST", &format!("{resource}?dryRun=All"), &body));
            all.push(Outgoing::json("PUT", &format!("{resource}/x?dryRun=All"), &body));
            all.push(Outgoing::patch(
                "PATCH",
                &format!("{resource}/x?dryRun=All"),
                "application/merge-patch+json",
                &body,
            ));
            all.push(Outgoing::empty("DELETE", &format!("{resource}/x?dryRun=All")));
            all.push(Outgoing::empty("DELETE", &format!("{resource}?dryRun=All")));
        }
        all
    };
    let mut all: Vec<Subject> = requests()
        .into_iter()
        .map(|outgoing| subject(with_headers(outgoing, json!({"Impersonate-User": NOBODY}))))
        .collect();
    for headers in [
        json!({"Impersonate-Group": "a"}),
        json!({"Impersonate-Uid": "a"}),
        json!({"Impersonate-Extra-A": "a"}),
        json!({"Impersonate-User": "system:anonymous"}),
        json!({"Impersonate-User": "system:serviceaccount:default:none"}),
        json!({"Impersonate-User": "system:serviceaccount:a"}),
        json!({"Impersonate-User": NOBODY, "Impersonate-Group": ["a", "b"], "Impersonate-Extra-A%2fb": "c"}),
    ] {
        all.push(subject(with_headers(Outgoing::empty("GET", PODS), headers)));
    }
    all
}

fn paths_and_methods() -> Vec<Subject> {
    let mut all = Vec::new();
    for target in [
        "/none",
        "/api/v2",
        "/api/v1/none",
        "/api/v1/namespaces/default/none/x",
        "/apis/none.example.com",
        "/apis/apps/v9",
        "/apis/none.example.com/v1/namespaces/default/things/x",
        "/api/v1/namespaces/default/pods/x/none",
        "/api/v1/watch",
        "/api/v1/pods/x",
        "/api/v1/namespaces/default/nodes",
        "/openapi/v3/none",
        "/api/v1/proxy/nodes/x",
        "/api/v1/pods?timeout=x",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/default/pods/",
    ] {
        all.push(subject(Outgoing::empty("GET", target)));
    }
    for (method, target) in [
        ("PUT", format!("{PODS}?dryRun=All")),
        ("PATCH", format!("{PODS}?dryRun=All")),
        ("POST", format!("{PODS}/x?dryRun=All")),
        ("POST", "/api/v1/pods?dryRun=All".to_owned()),
        ("DELETE", "/api/v1/pods?dryRun=All".to_owned()),
        ("OPTIONS", PODS.to_owned()),
        ("HEAD", PODS.to_owned()),
        ("TRACE", PODS.to_owned()),
        ("POST", "/version".to_owned()),
        ("POST", "/apis/apps/v1".to_owned()),
        ("PUT", "/api/v1/namespaces/default/pods/x/log?dryRun=All".to_owned()),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned()),
        ("GET", "/api/v1/namespaces/default/pods/x/eviction".to_owned()),
    ] {
        all.push(subject(Outgoing::empty(method, &target)));
    }
    for accept in ["text/html", "application/xml", "application/json;as=Nothing;v=v1;g=meta.k8s.io", "a", ""] {
        for target in [PODS, "/api/v1/namespaces/default", "/apis", "/apis/apps/v1", "/openapi/v2", "/version"] {
            all.push(subject(with_headers(Outgoing::empty("GET", target), json!({"Accept": accept}))));
        }
    }
    all
}

/// Bodies that cannot be decoded or are too large.
fn bodies() -> Vec<Subject> {
    let mut all = Vec::new();
    let target = format!("{PODS}?dryRun=All");
    let large = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "x".repeat(LARGE));
    for (kind, text) in [
        ("application/json", ""),
        ("application/json", "{"),
        ("application/json", "[]"),
        ("application/json", "null"),
        ("application/json", "{\"kind\": \"Nothing\"}"),
        ("application/json", "{\"apiVersion\": \"apps/v1\", \"kind\": \"Deployment\"}"),
        ("application/json", &*large),
        ("application/yaml", "a: [b"),
        ("application/vnd.kubernetes.protobuf", "k8s"),
        ("text/plain", "{}"),
        ("application/xml", "<a/>"),
        ("application/json; charset=none", "{}"),
        ("nothing", "{}"),
    ] {
        let body = |method: &str, target: &str| Outgoing {
            data: Some(text.as_bytes().to_vec()),
            ..with_headers(Outgoing::empty(method, target), json!({"Content-Type": kind}))
        };
        all.push(subject(body("POST", &target)));
        all.push(subject(body("PUT", &format!("{PODS}/x?dryRun=All"))));
        all.push(subject(body("PATCH", &format!("{PODS}/x?dryRun=All"))));
    }
    all
}

/// Reviews of tokens that no server issued; others would send credentials.
fn token_reviews() -> Vec<Subject> {
    let review = |spec: Value| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        Subject::any(Kind::Review, Outgoing::json("POST", TOKEN_REVIEWS, &body))
    };
    let mut all = vec![
        review(json!({"token": ""})),
        review(json!({"token": "unknown"})),
        review(json!({"token": "a.b.c"})),
        review(json!({"token": "unknown", "audiences": ["a"]})),
        review(json!({"audiences": ["a"]})),
    ];
    let own = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let target = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let own = || Outgoing::json("POST", target, &own);
    all.push(Subject::any(
        Kind::Review,
        with_headers(own(), json!({"Impersonate-User": NOBODY, "Impersonate-Group": "g"})),
    ));
    all.push(Subject::any(Kind::Review, Outgoing { token: Some(String::new()), ..own() }));
    all
}

#[cfg(test)]
mod tests {
    use super::generate;

    /// Nothing may change on a server, whatever it answers.
    #[test]
    fn writes_are_dry_runs() {
        let all = generate();
        assert!(all.len() > 150, "{}", all.len());
        for subject in all {
            let sent = &subject.outgoing;
            let is_read = matches!(sent.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE");
            let is_review = sent.target.ends_with("reviews");
            let is_document = sent.target.starts_with("/version") || sent.target == "/apis/apps/v1";
            let is_dry_run = sent.target.contains("dryRun=All") && subject.is_harmless();
            assert!(is_read || is_review || is_document || is_dry_run, "{} {}", sent.method, sent.target);
        }
    }
}
