//! Running of one case, step by step.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answer::{Answer, observe, observe_headers, trim};
use crate::case::{Case, Condition, Step};
use crate::difference::{differences, report, shorten};
use crate::endpoint::{Endpoint, Outgoing, TIMEOUT, target};
use crate::pointer::{lookup, select};
use crate::template::{Variables, expand, expand_members, expand_text};
use crate::text::Texts;
use crate::watch::Watch;
use crate::{normal, tidy};

/// Generated names consist of letters that form no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz";

/// The beginning of the error for a response without a value that later steps need.
pub(crate) const NOTHING_TO_CAPTURE: &str = "nothing to capture";

/// Sends the requests of a case and compares the responses, up to the first difference.
///
/// # Errors
/// The difference as text, or the reason why a step failed.
pub async fn replay(endpoint: &Endpoint, case: &Case) -> Result<(), String> {
    let compare = &mut |title: &str, step: &Step, got: Option<Value>| {
        let Some(got) = got else { return Ok(()) };
        let expected = step.expect.as_ref().ok_or_else(|| format!("{title}: nothing recorded"))?;
        let found = differences(expected, &got);
        if found.is_empty() { Ok(()) } else { Err(report(title, &found)) }
    };
    run_case(endpoint, case, compare).await
}

/// Sends the requests of a case and returns the new expectation of each step.
///
/// # Errors
/// If a step cannot be run.
pub async fn record(endpoint: &Endpoint, case: &Case) -> Result<Vec<Option<Value>>, String> {
    let mut recorded = Vec::new();
    let keep = &mut |_: &str, _: &Step, got: Option<Value>| {
        recorded.push(got);
        Ok(())
    };
    run_case(endpoint, case, keep).await?;
    Ok(recorded)
}

/// Called for each step with a title, the step, and the normal form of its response if that is compared.
type StepVerifier<'j> = dyn FnMut(&str, &Step, Option<Value>) -> Result<(), String> + Send + 'j;

async fn run_case(endpoint: &Endpoint, case: &Case, verify: &mut StepVerifier<'_>) -> Result<(), String> {
    let mut replay = Replay::new(endpoint, case);
    let done = replay.run(verify).await;
    replay.watches.clear();
    let namespace = case.head.namespace.then_some(replay.namespace.as_str());
    let tidied = tidy::remove(endpoint, &replay.created, namespace).await;
    done.and(tidied.map_err(|error| format!("clean-up: {error}")))
}

struct Replay<'a> {
    endpoint: &'a Endpoint,
    case: &'a Case,
    namespace: String,
    variables: Variables,
    texts: Texts,
    watches: HashMap<&'a str, Watch>,
    /// The paths of the objects that this case created, oldest first.
    created: Vec<String>,
}

impl<'a> Replay<'a> {
    fn new(endpoint: &'a Endpoint, case: &'a Case) -> Self {
        let mut texts = Texts::new(case.sent.clone());
        let (id, namespace) = (random(8), format!("c-{}", random(10)));
        texts.call(&namespace, "{{ns}}".to_owned());
        texts.call(&id, "{{id}}".to_owned());
        let variables = [("ns", &namespace), ("id", &id)];
        let variables = variables.map(|(name, value)| (name.to_owned(), Value::from(value.as_str()))).into();
        let (watches, created) = (HashMap::new(), Vec::new());
        Self { endpoint, case, namespace, variables, texts, watches, created }
    }

    async fn run(&mut self, verify: &mut StepVerifier<'_>) -> Result<(), String> {
        let head = &self.case.head;
        if head.namespace {
            let labels = expand_members(&head.namespace_labels, &self.variables)?;
            let metadata = json!({"name": self.namespace, "labels": labels});
            self.set_up("/api/v1/namespaces", "Namespace", &metadata).await?;
        }
        if head.namespace && head.serviceaccount {
            let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
            self.set_up(&path, "ServiceAccount", &json!({"name": "default"})).await?;
        }
        for (index, step) in self.case.steps.iter().enumerate() {
            let (title, got) = match (&step.method, &step.watch, &step.events) {
                (Some(method), ..) => (format!("{method} {}", step.path), self.request(method, step).await),
                (_, Some(name), _) => (format!("WATCH {}", step.path), self.watch(name, step).await),
                (.., Some(name)) => (format!("EVENTS of {name}"), self.events(name, step).await),
                (None, None, None) => ("nothing".to_owned(), Ok(None)),
            };
            let title = format!("step {} ({title})", index + 1);
            verify(&title, step, got.map_err(|error| format!("{title}: {error}"))?)?;
        }
        Ok(())
    }

    /// Creates an object that a case needs.
    async fn set_up(&mut self, path: &str, kind: &str, metadata: &Value) -> Result<(), String> {
        let body = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        let answer = self.endpoint.request(&Outgoing::json("POST", path, &body)).await?;
        if [201, 409].contains(&answer.status) {
            return Ok(());
        }
        Err(format!("setup POST {path}: {} {}", answer.status, answer.text()))
    }

    fn outgoing(&self, method: &str, step: &Step) -> Result<Outgoing, String> {
        let path = expand_text(&step.path, &self.variables)?;
        let query = expand_members(&step.query, &self.variables)?;
        let mut headers = expand_members(&step.headers, &self.variables)?;
        let data = match (&step.body, &step.raw, &step.base64) {
            (Some(body), ..) => Some(expand(body, &self.variables)?.to_string().into_bytes()),
            (_, Some(raw), _) => Some(expand_text(raw, &self.variables)?.into_bytes()),
            (.., Some(encoded)) => Some(BASE64_STANDARD.decode(encoded).map_err(|error| error.to_string())?),
            (None, None, None) => None,
        };
        if data.is_some() && !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            headers.insert("Content-Type".to_owned(), Value::from("application/json"));
        }
        let token = step.token.as_ref().map(|token| expand_text(token, &self.variables)).transpose()?;
        Ok(Outgoing { method: method.to_owned(), target: target(&path, &query), headers, data, token })
    }

    /// Sends a request, and returns the normal form of the response, or `None` if the step only captures.
    async fn request(&mut self, method: &str, step: &Step) -> Result<Option<Value>, String> {
        let outgoing = self.outgoing(method, step)?;
        let answer = self.settled(&outgoing, step.retry_until.as_ref()).await?;
        let parsed = answer.parsed();
        self.learn_name(step, &parsed)?;
        for (name, pointer) in &step.capture {
            let value = lookup(&parsed, pointer).ok_or_else(|| {
                format!("{NOTHING_TO_CAPTURE} at {pointer}; status {}, body {}", answer.status, shorten(Some(&parsed)))
            })?;
            self.variables.insert(name.clone(), value.clone());
        }
        if !step.check {
            return Ok(None);
        }
        observe(step, answer.status, &answer.headers, &parsed, &self.variables, &mut self.texts).map(Some)
    }

    /// Repeats a request until the condition is met or the time has passed.
    async fn settled(&mut self, outgoing: &Outgoing, condition: Option<&Condition>) -> Result<Answer, String> {
        let limit = Instant::now() + condition.and_then(|condition| condition.timeout).map_or(TIMEOUT, seconds);
        loop {
            let answer = self.endpoint.request(outgoing).await?;
            self.created.extend(tidy::created(outgoing, &answer));
            let Some(condition) = condition else { return Ok(answer) };
            if holds(condition, &answer, &self.variables)? || Instant::now() > limit {
                return Ok(answer);
            }
            tokio::time::sleep(condition.interval.map_or(Duration::from_millis(100), seconds)).await;
        }
    }

    /// Registers a name that the server generated from `generateName`.
    fn learn_name(&mut self, step: &Step, parsed: &Value) -> Result<(), String> {
        let prefix = step.body.as_ref().and_then(|body| body.pointer("/metadata/generateName")?.as_str());
        let name = parsed.pointer("/metadata/name").or(parsed.pointer("/details/name")).and_then(Value::as_str);
        let (Some(prefix), Some(name)) = (prefix, name) else { return Ok(()) };
        let prefix = expand_text(prefix, &self.variables)?;
        let id = self.variables["id"].as_str().unwrap_or_default();
        self.texts.call_name_from(&prefix, name, &prefix.replace(id, "{{id}}"));
        Ok(())
    }

    async fn watch(&mut self, name: &'a str, step: &Step) -> Result<Option<Value>, String> {
        let mut outgoing = self.outgoing("GET", step)?;
        if !step.query.contains_key("watch") {
            outgoing.target.push(if outgoing.target.contains('?') { '&' } else { '?' });
            outgoing.target += "watch=1";
        }
        match Watch::open(self.endpoint, &outgoing).await? {
            Ok(watch) => {
                let got = json!({"status": 200, "headers": observe_headers(step, &watch.headers, &mut self.texts)});
                self.watches.insert(name, watch);
                Ok(Some(got))
            }
            Err(answer) => {
                let parsed = answer.parsed();
                observe(step, answer.status, &answer.headers, &parsed, &self.variables, &mut self.texts).map(Some)
            }
        }
    }

    async fn events(&mut self, name: &str, step: &Step) -> Result<Option<Value>, String> {
        let watch = self.watches.get_mut(name).ok_or_else(|| format!("no watch named {name}"))?;
        let deadline = Instant::now() + step.timeout.map_or(TIMEOUT, seconds);
        let mut events = watch.take(step.count.unwrap_or(1), step.until, deadline).await;
        let closed = watch.closed;
        if step.sort_events {
            let name = |event: &Value| event.pointer("/object/metadata/name").map(Value::to_string);
            events.sort_by_cached_key(name);
        }
        let events: Vec<Value> = events.into_iter().map(|event| self.event(step, event)).collect::<Result<_, _>>()?;
        let mut got = json!({"events": events});
        if step.until == Some(crate::case::Until::Close) {
            got["closed"] = Value::from(closed);
        }
        Ok(Some(got))
    }

    fn event(&mut self, step: &Step, mut event: Value) -> Result<Value, String> {
        if event["type"] == "BOOKMARK"
            && let Some(version) = event.pointer_mut("/object/metadata/resourceVersion")
        {
            *version = Value::from("<rv>");
        }
        let Some(object) = event.get("object") else { return Ok(normal::body(&mut self.texts, &event)) };
        let object = if object.is_object() { trim(step, object, &self.variables)? } else { object.clone() };
        event["object"] = normal::body(&mut self.texts, &object);
        Ok(event)
    }
}

fn holds(condition: &Condition, answer: &Answer, variables: &Variables) -> Result<bool, String> {
    if !condition.status.is_empty() && !condition.status.contains(&answer.status) {
        return Ok(false);
    }
    if let Some(contains) = &condition.contains
        && !answer.text().contains(&expand_text(contains, variables)?)
    {
        return Ok(false);
    }
    if let Some(lacks) = &condition.lacks
        && answer.text().contains(&expand_text(lacks, variables)?)
    {
        return Ok(false);
    }
    if condition.header.as_ref().is_some_and(|name| !answer.headers.contains_key(name)) {
        return Ok(false);
    }
    let Some(path) = &condition.path else { return Ok(true) };
    let found = select(&answer.parsed(), &expand_text(path, variables)?);
    let mut values = found.values().filter(|value| *value != "<missing>").peekable();
    if condition.exists == Some(false) {
        return Ok(values.peek().is_none());
    }
    match &condition.equals {
        Some(wanted) => {
            let wanted = expand(wanted, variables)?;
            Ok(values.any(|value| differences(&wanted, value).is_empty()))
        }
        None => Ok(values.peek().is_some()),
    }
}

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(TIMEOUT)
}

fn random(length: usize) -> String {
    let mut random = rand::rng();
    (0..length).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::holds;
    use crate::answer::Answer;
    use crate::case::Condition;
    use crate::template::Variables;

    #[test]
    fn evaluates_conditions() {
        let mut headers = HeaderMap::new();
        headers.insert("x-a", "1".parse().unwrap());
        let data = br#"{"items": [{"n": 1}, {"n": 2}], "name": "q"}"#.as_slice().into();
        let answer = Answer { status: 200, headers, data };
        let variables: Variables = [("v".to_owned(), json!("q"))].into();
        for (condition, want) in [
            (json!({}), true),
            (json!({"status": [200, 404]}), true),
            (json!({"status": [404]}), false),
            (json!({"contains": "\"{{v}}\""}), true),
            (json!({"contains": "w"}), false),
            (json!({"lacks": "{{v}}"}), false),
            (json!({"lacks": "w"}), true),
            (json!({"header": "X-A"}), true),
            (json!({"header": "X-B"}), false),
            (json!({"path": "/items/*/n"}), true),
            (json!({"path": "/items/*/n", "equals": 2}), true),
            (json!({"path": "/items/*/n", "equals": 3}), false),
            (json!({"path": "/name", "equals": "{{v}}"}), true),
            (json!({"path": "/other"}), false),
            (json!({"path": "/other", "exists": false}), true),
            (json!({"path": "/name", "exists": false}), false),
            (json!({"path": "/name", "status": [404]}), false),
        ] {
            let read: Condition = serde_json::from_value(condition.clone()).unwrap();
            assert_eq!(holds(&read, &answer, &variables), Ok(want), "{condition}");
        }
    }
}
