//! ComponentStatus: the health of the store, and of the scheduler and controller manager on this machine, checked on
//! each request.

use std::sync::Arc;
use std::time::Duration;

use binnacle_endpoints::{
    HandlerResult, Include, SubresourceCall, SubresourceHandler, Transform, list_options, reject_export,
    respond_subresource,
};
use binnacle_features::Features;
use binnacle_fields::FieldMut;
use binnacle_fields::core::v1::{ComponentCondition, ComponentStatus, ComponentStatusList};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::object;
use binnacle_request::BoxFuture;
use binnacle_schema::{Value, value};
use binnacle_store::Store;
use futures::future::join_all;

use crate::https;

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct ComponentStatuses {
    components: Vec<Component>,
    features: Arc<Features>,
}

struct Component {
    name: &'static str,
    check: Check,
}

enum Check {
    Store(Arc<dyn Store>),
    /// A server on this machine, by its port.
    Server(u16),
}

/// The outcome of a check: the condition `Healthy`.
struct Health {
    status: &'static str,
    message: String,
    error: String,
}

impl ComponentStatuses {
    pub(crate) fn new(store: Arc<dyn Store>, features: Arc<Features>) -> Self {
        Self {
            features,
            components: vec![
                Component { name: "controller-manager", check: Check::Server(10257) },
                Component { name: "etcd-0", check: Check::Store(store) },
                Component { name: "scheduler", check: Check::Server(10259) },
            ],
        }
    }

    async fn respond(&self, call: SubresourceCall) -> HandlerResult {
        let SubresourceCall { request, output, .. } = call;
        let include = || match output.transform {
            Transform::Table(_) => Include::of(&request.query),
            _ => Ok(Include::default()),
        };
        let columns = binnacle_columns::table_for("", "ComponentStatus");
        if request.info.verb == "get" {
            reject_export(&request.query)?;
            let name = request.info.name.as_str();
            let component = self.components.iter().find(|component| component.name == name);
            let component =
                component.ok_or_else(|| Status::not_found(&GroupResource::new("", "componentstatus"), name))?;
            let message = message("ComponentStatus")?;
            return respond_subresource(output, include()?, 200, component.status().await, message, Some(columns));
        }
        let description = binnacle_resources::find("", "v1", "componentstatuses").ok_or_else(Status::path_not_found)?;
        let options = list_options(&request, description, &self.features)?;
        let include = include()?;
        let mut items = join_all(self.components.iter().map(Component::status)).await;
        items.retain(|item| {
            let field = |field: &str| (field == "metadata.name").then(|| object::name(item));
            options.labels.matches(|_| None) && options.fields.matches(field)
        });
        for item in &mut items {
            // Items of lists have no kind.
            let mut item = FieldMut::<ComponentStatus>::root(item);
            item.remove(ComponentStatus::KIND);
            item.remove(ComponentStatus::API_VERSION);
        }
        let mut list = value!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}});
        FieldMut::<ComponentStatusList>::root(&mut list).set(ComponentStatusList::ITEMS, items);
        respond_subresource(output, include, 200, list, message("ComponentStatusList")?, Some(columns))
    }
}

impl SubresourceHandler for ComponentStatuses {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.respond(call))
    }

    fn has_table(&self) -> bool {
        true
    }
}

impl Component {
    async fn status(&self) -> Value {
        let Health { status, message, error } = self.check.run().await;
        let mut object = value!({"kind": "ComponentStatus", "apiVersion": "v1"});
        let mut component = FieldMut::<ComponentStatus>::root(&mut object);
        component.entry(ComponentStatus::METADATA).set(ObjectMeta::NAME, self.name);
        let mut healthy = value!({"type": "Healthy", "status": status});
        let mut condition = FieldMut::<ComponentCondition>::root(&mut healthy);
        for (field, text) in [(ComponentCondition::MESSAGE, message), (ComponentCondition::ERROR, error)] {
            if !text.is_empty() {
                condition.set(field, text);
            }
        }
        component.set(ComponentStatus::CONDITIONS, vec![healthy]);
        object
    }
}

impl Check {
    async fn run(&self) -> Health {
        match self {
            Self::Store(store) => match tokio::time::timeout(TIMEOUT, store.health()).await {
                Ok(Ok(())) => Health::new("True", "ok"),
                Ok(Err(error)) => Health { error: error.to_string(), ..Health::new("False", "") },
                Err(_) => Health { error: "context deadline exceeded".to_owned(), ..Health::new("False", "") },
            },
            Self::Server(port) => match https::get("127.0.0.1", *port, "/healthz", TIMEOUT).await {
                Ok(response) => health_of_response(response.code, &response.body),
                Err(why) => Health::new("False", why),
            },
        }
    }
}

impl Health {
    fn new(status: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), error: String::new() }
    }
}

fn health_of_response(code: u16, body: &str) -> Health {
    match code {
        200..300 => Health::new("True", body),
        // A redirect means neither healthy nor unhealthy.
        300..400 => Health::new("Unknown", format!("Probe terminated redirects, Response body: {body}")),
        _ => Health::new("False", format!("HTTP probe failed with statuscode: {code}")),
    }
}

fn message(kind: &str) -> Result<&'static binnacle_schema::Message, Status> {
    binnacle_kinds::tables::kind("", "v1", kind)
        .ok_or_else(|| Status::internal(format!("the schema of {kind} is missing")))
}
