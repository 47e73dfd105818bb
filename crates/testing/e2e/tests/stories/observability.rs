//! Rules and dashboard (`packaging/observability`) name only metrics and labels that the server has, pass their unit
//! tests, and give results in a real Prometheus.

mod declared;
mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use binnacle_testkit::{Server, TempDir, wait_until};
use serde_json::Value;

use crate::documents::{items, path, read, text};
use crate::prometheus::{Prometheus, load, monitored};

const RULES: &str = "packaging/observability/rules.yaml";
const RULES_TEST: &str = "packaging/observability/rules_test.yaml";
const DASHBOARD: &str = "packaging/observability/dashboard.json";

/// Labels that Prometheus adds to each series, and the one of histogram buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// A query and the name of its rule or panel.
struct Query {
    name: String,
    expression: String,
}

fn rules() -> Vec<Value> {
    let groups = read(RULES);
    items(&groups["groups"]).flat_map(|group| items(&group["rules"]).cloned().collect::<Vec<_>>()).collect()
}

fn rule_queries() -> Vec<Query> {
    let query = |rule: &Value| {
        let name = rule.get("alert").or(rule.get("record")).unwrap().as_str().unwrap().to_owned();
        Query { name, expression: rule["expr"].as_str().unwrap().to_owned() }
    };
    rules().iter().map(query).collect()
}

/// Returns the queries of the dashboard's panels, with its variables replaced.
fn panel_queries() -> Vec<Query> {
    let dashboard = read(DASHBOARD);
    let mut queries = Vec::new();
    for panel in items(&dashboard["panels"]) {
        for target in items(&panel["targets"]) {
            let mut expression = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in
                [("$job", "apiserver"), ("$instance", ".*"), ("$__rate_interval", "20s"), ("$__range", "1m")]
            {
                expression = expression.replace(variable, value);
            }
            assert!(!expression.contains('$'), "an unknown variable in {expression}");
            queries.push(Query { name: panel["title"].as_str().unwrap().to_owned(), expression });
        }
    }
    queries
}

/// Returns the labels of the series in an exposition, by name.
fn exposed(metrics: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut exposed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, _) = series.split_once('{').unwrap_or((series, ""));
        let usage = promql::usage(series);
        exposed.entry(name.to_owned()).or_default().extend(usage.selectors.into_iter().flat_map(|found| found.labels));
    }
    exposed
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_panels_name_metrics_and_labels_of_the_server() {
    let server = tokio::task::block_in_place(|| Server::durable_with(&["--etcd-count-metric-poll-period=1s"]));
    let mut client = server.client().await;
    load(&mut client).await;
    let metrics = client.get("/metrics").await.unwrap().body;
    let exposed = exposed(&metrics);
    let declared = declared::families();
    assert!(declared.len() > 150, "{} families were found in the sources", declared.len());
    // The labels of a recorded series are those by which it is grouped.
    let records: BTreeMap<String, BTreeSet<String>> = rule_queries()
        .into_iter()
        .filter(|query| query.name.contains(':'))
        .map(|query| (query.name, promql::usage(&query.expression).grouping))
        .collect();

    let mut problems = Vec::new();
    let mut from_server = BTreeSet::new();
    for Query { name, expression } in rule_queries().into_iter().chain(panel_queries()) {
        let usage = promql::usage(&expression);
        assert!(!usage.selectors.is_empty(), "{name}: {expression}");
        let mut available: BTreeSet<String> = ADDED.map(str::to_owned).into();
        for selector in &usage.selectors {
            let family = selector.metric.as_str();
            let labels = match exposed.get(family) {
                Some(labels) => {
                    from_server.insert(family.to_owned());
                    labels.clone()
                }
                None if family == "up" => BTreeSet::new(),
                None => match records.get(family).cloned().or_else(|| declared::labels(&declared, family)) {
                    Some(labels) => labels,
                    None => {
                        problems.push(format!("{name}: there is no metric {family}"));
                        continue;
                    }
                },
            };
            for label in selector.labels.iter().filter(|label| !ADDED.contains(&label.as_str())) {
                if !labels.contains(label) {
                    problems.push(format!("{name}: {family} has no label {label}, but {labels:?}"));
                }
            }
            available.extend(labels);
        }
        let missing: Vec<&String> = usage.grouping.difference(&available).collect();
        if !missing.is_empty() {
            problems.push(format!("{name}: no metric of it has the labels {missing:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(from_server.len() > 40, "only {} metrics had series", from_server.len());
}

fn promtool(arguments: &[&str]) {
    let output =
        Command::new("promtool").args(arguments).current_dir(path("packaging/observability")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}\n{out}{err}");
}

#[test]
#[cfg_attr(not(has_prometheus), ignore = "needs prometheus")]
fn rules_pass_their_unit_tests() {
    promtool(&["check", "rules", "rules.yaml"]);
    promtool(&["test", "rules", "rules_test.yaml"]);
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn alerts_have_unit_tests_and_runbooks() {
    let tests = text(RULES_TEST);
    for rule in rules() {
        let Some(alert) = rule["alert"].as_str() else { continue };
        assert!(tests.contains(alert), "{alert} has no unit test");
        let runbook = rule["annotations"]["runbook"].as_str().unwrap();
        let (page, section) = runbook.split_once('#').unwrap();
        let page_text = text(page);
        let mut headings = page_text.lines().filter_map(|line| line.strip_prefix('#'));
        let found = headings.any(|heading| anchor(heading.trim_start_matches('#').trim()) == section);
        assert!(found, "{alert}: {page} has no section {section}");
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("critical" | "warning" | "info")), "{alert}");
    }
}

/// Panels that have no data unless something fails, or unless the server has etcd, webhooks or extension API servers.
const QUIET: &[&str] = &[
    "Calls of etcd by result",
    "Calls of webhooks",
    "Calls of webhooks and extension API servers",
    "Comparisons that failed",
    "Conversion webhooks, 99th percentile",
    "Events from etcd",
    "Failed requests to the store",
    "Failures by resource",
    "Latency of webhooks, 99th percentile",
    "Loads of caches",
    "Messages received from etcd",
    "Rejections by webhooks",
    "Requests above a limit",
    "Requests ended at their deadline",
    "Requests that passed without a webhook",
    "Restarts of background tasks",
    "Skipped webhooks",
    "Unavailable aggregated APIs",
    "Undecodable objects",
    "Watches ended for slow clients",
];

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_prometheus), ignore = "needs prometheus")]
async fn prometheus_evaluates_rules_and_panels() {
    let temp = TempDir::new();
    let more = ["--etcd-count-metric-poll-period=1s", "--etcd-db-metric-poll-interval=1s"];
    let server = tokio::task::block_in_place(|| monitored(&temp, &more));
    let prometheus = Prometheus::start(&temp, &server, &text(RULES), &[]);
    let mut client = server.client().await;
    let groups = wait_until("all rules are evaluated", async || {
        load(&mut client).await;
        let groups = prometheus.get("/api/v1/rules").await?["data"]["groups"].clone();
        let rules = || items(&groups).flat_map(|group| items(&group["rules"]));
        (rules().count() > 0 && rules().all(|rule| rule["health"] != "unknown")).then_some(groups)
    })
    .await;
    for rule in items(&groups).flat_map(|group| items(&group["rules"])) {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert!(rule["state"] != "firing", "{rule}");
    }
    for Query { name, expression } in panel_queries() {
        if QUIET.contains(&name.as_str()) {
            // It must be a valid query all the same.
            prometheus.query(&expression).await.unwrap();
            continue;
        }
        wait_until(&format!("{name}: {expression}"), async || {
            let values = prometheus.query(&expression).await.filter(|values| !values.is_empty());
            if values.is_none() {
                load(&mut client).await;
                let watch = "/api/v1/configmaps?watch=1&timeoutSeconds=1";
                assert_eq!(client.get(watch).await.unwrap().status, 200);
            }
            values
        })
        .await;
    }
}
