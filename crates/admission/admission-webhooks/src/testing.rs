//! Test fixtures: webhooks that are never called, and requests.

use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, GroupVersionResource};
use binnacle_metrics::Registry;
use binnacle_registry::admission::{Attributes, Operation, OperationOptions};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::{Limits, Value, json};
use binnacle_webhook::{ServiceResolver, Users};

use crate::backends::Backends;
use crate::hook::Hook;
use crate::metrics::{Metrics, Type};

#[derive(Debug)]
struct NoServices;

impl ServiceResolver for NoServices {
    fn resolve<'a>(&'a self, _: &'a str, _: &'a str, _: u16) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Err("no services".to_owned()) })
    }
}

pub(crate) fn backends() -> Arc<Backends> {
    let metrics = Metrics::register(&Registry::new()).expect("a registry of its own");
    Arc::new(Backends::new(Users::default(), Arc::new(NoServices), &metrics))
}

pub(crate) fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).expect("it is JSON")
}

/// Compiles the webhooks of a configuration `c`, from a list in JSON.
pub(crate) fn hooks(webhooks: &str) -> Vec<Arc<Hook>> {
    let configuration = parse(&format!(r#"{{"metadata":{{"name":"c"}},"webhooks":{webhooks}}}"#));
    Hook::all_of("", &configuration, Type::Admit, &backends())
}

/// Returns the attributes of the creation of an object `x` in the namespace `n`.
pub(crate) fn creation(group: &str, kind: &str, plural: &str) -> Attributes {
    Attributes {
        operation: Operation::Create,
        kind: GroupVersionKind::new(group, "v1", kind),
        resource: GroupVersionResource::new(group, "v1", plural),
        subresource: "".into(),
        namespace: "n".into(),
        name: "x".into(),
        user: User::new("u", &["g"]),
        dry_run: false,
        options: OperationOptions::None,
        deadline: None,
        by_server: false,
    }
}
