//! The comparison of two responses to the same request.

use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::answer::{Answer, header, normal_headers};
use crate::difference::{Difference, differences};
use crate::explained::{Rule, Rules};
use crate::subject::{Kind, Subject};
use crate::text::Texts;
use crate::{map_order, mask, normal, pointer, protobuf, server_values};

/// The stores of two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Identifiers, versions and times must be equal; a difference of versions is a skew.
    Same,
    Separate,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub enum Verdict<'r> {
    Equal,
    /// All differences are known gaps, the first of them this one.
    Explained(&'r Rule, Vec<Difference>),
    Different(Mismatch),
    /// The servers answered from different states of the store.
    Skew,
    /// A server was overloaded or unavailable.
    Failed(String),
}

/// Two normal forms that differ, without secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub expected: Value,
    pub got: Value,
    pub differences: Vec<Difference>,
}

/// Overload and timeouts, which say nothing about the behavior of a server.
const UNAVAILABLE: [u16; 4] = [429, 502, 503, 504];

/// Compares the response of one server (`got`) with that of the other (`expected`).
#[must_use]
pub fn compare<'r>(
    subject: &Subject,
    stores: Stores,
    rules: &'r Rules,
    expected: &Answer,
    got: &Answer,
) -> Verdict<'r> {
    let kinds = |answer: &Answer| answer.headers.get(CONTENT_TYPE).cloned();
    let warnings = |answer: &Answer| answer.headers.get_all("warning").iter().cloned().collect::<Vec<_>>();
    if expected.status == got.status
        && expected.data == got.data
        && kinds(expected) == kinds(got)
        && warnings(expected) == warnings(got)
    {
        return Verdict::Equal;
    }
    if expected.status != got.status
        && let Some(status) = [expected.status, got.status].into_iter().find(|status| UNAVAILABLE.contains(status))
    {
        let answer = if expected.status == status { expected } else { got };
        let text: String = mask::text(&answer.text()).chars().take(200).collect();
        return Verdict::Failed(format!("{status}: {text}"));
    }
    let mut bodies = [expected, got].map(Answer::tree);
    for body in &mut bodies {
        server_values::normalize(body);
        map_order::sort_errors(body);
    }
    if stores == Stores::Same && is_skew(subject, [expected, got], &bodies) {
        return Verdict::Skew;
    }
    // Reviews and dry runs return new objects.
    let is_exact = stores == Stores::Same && !matches!(subject.kind, Kind::DryRun | Kind::Review);
    let sent = subject.outgoing.data.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let prefix = sent_prefix(&sent);
    let given = prefix.as_deref();
    let normal = |answer: &Answer, body: &Value| {
        let mut texts = if is_exact { Texts::exact() } else { Texts::new(sent.to_string()) };
        // An object also shows the prefix that was sent in another format.
        let shown = body.pointer("/metadata/generateName").and_then(Value::as_str);
        learn_name(&mut texts, given.or(shown), body);
        let headers = normal_headers(&[], &answer.headers, &mut texts);
        json!({"status": answer.status, "headers": headers, "body": normal::body(&mut texts, body)})
    };
    let [left, right] = [normal(expected, &bodies[0]), normal(got, &bodies[1])];
    let mut found = differences(&left, &right);
    if found.is_empty() && is_exact && is_protobuf(expected) && !server_values::has_own_bytes(&bodies[0]) {
        found.extend(protobuf_difference(expected, got));
    }
    verdict(subject, rules, left, right, found)
}

/// Applies the rules to differences of normal forms, and removes secrets. A rule for the `/answer` explains all
/// differences, because the bodies of different statuses have nothing in common.
pub(crate) fn verdict<'r>(
    subject: &Subject,
    rules: &'r Rules,
    mut expected: Value,
    mut got: Value,
    mut found: Vec<Difference>,
) -> Verdict<'r> {
    if found.is_empty() {
        return Verdict::Equal;
    }
    let mut explained = answer_difference(&expected, &got).and_then(|difference| rules.explain(subject, &difference));
    let mut rest = Vec::new();
    if explained.is_none() {
        for difference in &found {
            match rules.explain(subject, difference) {
                Some(rule) => explained = explained.or(Some(rule)),
                None => rest.push(difference.clone()),
            }
        }
    }
    for form in [&mut expected, &mut got] {
        if let Some(body) = form.get_mut("body") {
            mask::value(body);
        }
        mask::texts(form);
    }
    if let (true, Some(rule)) = (rest.is_empty(), explained) {
        found.iter_mut().for_each(|difference| difference.mask(&expected, &got));
        return Verdict::Explained(rule, found);
    }
    rest.iter_mut().for_each(|difference| difference.mask(&expected, &got));
    Verdict::Different(Mismatch { expected, got, differences: rest })
}

/// Returns the status and the message of two answers as one difference if the statuses differ. The status in a body
/// counts more than that before it: kube-apiserver has sent the latter when it fails to encode the answer.
fn answer_difference(expected: &Value, got: &Value) -> Option<Difference> {
    let status = |form: &Value| form.pointer("/body/code").unwrap_or(&form["status"]).to_string();
    let shown = |form: &Value| {
        let message = form.pointer("/body/message").and_then(Value::as_str).unwrap_or_default();
        Some(Value::from(format!("{} {message}", status(form))))
    };
    (status(expected) != status(got)).then(|| Difference {
        path: "/answer".to_owned(),
        expected: shown(expected),
        got: shown(got),
    })
}

/// Returns the `generateName` of a body in JSON or YAML.
fn sent_prefix(sent: &str) -> Option<String> {
    let (tree, _) = binnacle_schema::yaml::parse(sent.as_bytes(), &binnacle_schema::Limits::default()).ok()?;
    let prefix = tree.str_at(&["metadata", "generateName"]);
    (!prefix.is_empty()).then(|| prefix.to_owned())
}

/// Registers the name that the server generated from `generateName`.
fn learn_name(texts: &mut Texts, prefix: Option<&str>, body: &Value) {
    const NAMES: [&str; 3] = ["/metadata/name", "/details/name", "/rows/0/object/metadata/name"];
    let name = NAMES.iter().find_map(|pointer| body.pointer(pointer)?.as_str());
    if let (Some(prefix), Some(name)) = (prefix, name) {
        texts.call_name_from(prefix, name, prefix);
    }
}

/// Returns true if the servers answered from different states of the store.
fn is_skew(subject: &Subject, answers: [&Answer; 2], bodies: &[Value; 2]) -> bool {
    let statuses = answers.map(|answer| answer.status);
    let has = |status: u16| statuses.contains(&status);
    match subject.kind {
        Kind::Object if statuses == [200, 200] => {
            let [left, right] = [0, 1].map(|side| version_in(answers[side], &bodies[side]));
            left != right
        }
        // An object that one server does not have yet, or no longer; the Status names it.
        Kind::Object => has(200) && has(404) && bodies.iter().any(|body| body.pointer("/details/name").is_some()),
        Kind::List if statuses == [200, 200] => {
            let [left, right] = [0, 1].map(|side| version_in(answers[side], &bodies[side]));
            left != right
        }
        // The version of the first response was compacted, or the other store does not have it yet.
        Kind::List => has(410),
        Kind::DryRun => has(409) && statuses[0] != statuses[1],
        // One server no longer has the events after that version.
        Kind::Watch => has(410),
        Kind::Review | Kind::Document => false,
    }
}

/// Returns the resourceVersion of an object or list, or an empty text.
pub(crate) fn version_of(answer: &Answer) -> String {
    if is_protobuf(answer) { version_in(answer, &Value::Null) } else { version_in(answer, &answer.tree()) }
}

fn version_in(answer: &Answer, body: &Value) -> String {
    if is_protobuf(answer) {
        return protobuf::resource_version(&answer.data).unwrap_or_default();
    }
    pointer::lookup(body, "/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_protobuf(answer: &Answer) -> bool {
    header(&answer.headers, CONTENT_TYPE.as_str()).contains("vnd.kubernetes.protobuf")
}

fn protobuf_difference(expected: &Answer, got: &Answer) -> Option<Difference> {
    let path = protobuf::first_difference(&expected.data, &got.data)?;
    let size = |answer: &Answer| Some(Value::from(format!("a message of {} bytes", answer.data.len())));
    Some(Difference { path: format!("/body/protobuf{path}"), expected: size(expected), got: size(got) })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use serde_json::{Value, json};

    use super::{Stores, Verdict, compare};
    use crate::answer::Answer;
    use crate::endpoint::Outgoing;
    use crate::explained::Rules;
    use crate::subject::Subject;

    fn answer(status: u16, body: &Value) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Answer { status, headers, data: body.to_string().into() }
    }

    fn name(verdict: &Verdict<'_>) -> String {
        match verdict {
            Verdict::Equal => "equal".to_owned(),
            Verdict::Explained(rule, _) => format!("explained by {}", rule.name),
            Verdict::Different(mismatch) => {
                let paths: Vec<&str> = mismatch.differences.iter().map(|found| found.path.as_str()).collect();
                format!("different: {}", paths.join(" "))
            }
            Verdict::Skew => "skew".to_owned(),
            Verdict::Failed(why) => format!("failed: {why}"),
        }
    }

    #[test]
    fn distinguishes_skew_from_differences() {
        let pod = |version: &str, node: &str| {
            json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u", "resourceVersion": version},
                "spec": {"nodeName": node}})
        };
        let list = |version: &str, items: Value| json!({"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items});
        let missing = json!({"kind": "Status", "code": 404, "details": {"name": "p", "kind": "pods"}});
        let no_resource = json!({"kind": "Status", "code": 404, "details": {}});
        let (get, lists) = ("/api/v1/namespaces/n/pods/p", "/api/v1/pods");
        for (target, left, right, same, separate) in [
            (get, (200, pod("5", "a")), (200, pod("5", "a")), "equal", "equal"),
            (get, (200, pod("5", "a")), (200, pod("6", "a")), "skew", "equal"),
            (
                get,
                (200, pod("5", "a")),
                (200, pod("5", "b")),
                "different: /body/spec/nodeName",
                "different: /body/spec/nodeName",
            ),
            (get, (200, pod("5", "a")), (404, missing.clone()), "skew", ""),
            (get, (200, pod("5", "a")), (404, no_resource), "", ""),
            (get, (200, pod("5", "a")), (503, json!("busy")), "failed: 503: \"busy\"", "failed: 503: \"busy\""),
            (lists, (200, list("9", json!([]))), (200, list("9", json!([]))), "equal", "equal"),
            (lists, (200, list("9", json!([]))), (200, list("8", json!([]))), "skew", "equal"),
            (lists, (200, list("9", json!([]))), (410, missing), "skew", ""),
            (
                lists,
                (200, list("9", json!([]))),
                (200, list("9", json!(null))),
                "different: /body/items",
                "different: /body/items",
            ),
        ] {
            let subject = Subject::parse(Outgoing::empty("GET", target)).unwrap();
            for (stores, want) in [(Stores::Same, same), (Stores::Separate, separate)] {
                let (left, right) = (answer(left.0, &left.1), answer(right.0, &right.1));
                let rules = Rules::none();
                let got = name(&compare(&subject, stores, &rules, &left, &right));
                match want {
                    "" => assert!(got.starts_with("different: ") && got.contains("/status"), "{got}"),
                    want => assert_eq!(got, want, "{target} {stores:?}"),
                }
            }
        }
    }

    #[test]
    fn a_rule_for_the_answer_explains_all_its_differences() {
        let table = "made | update services/status | /answer | \"201 .*\" | \"404 gone\" | a | r\n";
        let rules = Rules::parse(table).unwrap();
        let outgoing = Outgoing::empty("PUT", "/api/v1/namespaces/n/services/s/status?dryRun=All");
        let subject = Subject::parse(outgoing).unwrap();
        let missing = answer(404, &json!({"kind": "Status", "code": 404, "message": "gone"}));
        for (status, want) in [(201, "explained by made"), (200, "different: ")] {
            let made = answer(status, &json!({"kind": "Service", "metadata": {"name": "s"}}));
            let got = name(&compare(&subject, Stores::Same, &rules, &made, &missing));
            assert!(got.starts_with(want), "{got}");
        }
    }

    #[test]
    fn compares_identifiers_only_in_the_same_store() {
        let pod = |uid: &str| json!({"kind": "Pod", "metadata": {"uid": uid, "resourceVersion": "5"}});
        let [left, right] = [1, 2].map(|n| answer(200, &pod(&format!("0a1b2c3d-0000-4000-8000-00000000000{n}"))));
        let subject = Subject::parse(Outgoing::empty("GET", "/api/v1/namespaces/n/pods/p")).unwrap();
        let rules = Rules::none();
        let verdict = |stores| name(&compare(&subject, stores, &rules, &left, &right));
        assert_eq!(verdict(Stores::Same), "different: /body/metadata/uid");
        assert_eq!(verdict(Stores::Separate), "equal");
    }

    #[test]
    fn differences_of_secrets_show_no_values() {
        let secret = |data: &str| json!({"kind": "Secret", "metadata": {"name": "s", "resourceVersion": "5"}, "data": {"password": data}});
        let subject = Subject::parse(Outgoing::empty("GET", "/api/v1/namespaces/n/secrets/s")).unwrap();
        let rules = Rules::none();
        let (left, right) = (answer(200, &secret("c2VjcmV0MQ==")), answer(200, &secret("c2VjcmV0Mg==")));
        let Verdict::Different(mismatch) = compare(&subject, Stores::Same, &rules, &left, &right) else {
            panic!("the data differs")
        };
        assert_eq!(mismatch.differences[0].path, "/body/data/password");
        assert!(!format!("{mismatch:?}").contains("c2VjcmV0"), "{mismatch:?}");
    }
}
