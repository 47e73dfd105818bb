//! The publisher of the root certificate: each active namespace has a config map with the authorities of the server's
//! certificate, which pods mount to reach the API.

use binnacle_controllers::Objects;
use binnacle_fields::core::v1::ConfigMap;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_registry::object::metadata_fields;
use binnacle_schema::{Object, Value, value};

use crate::context::ClusterContext;
use crate::per_namespace::PerNamespace;

pub(crate) const NAME: &str = "root-ca-certificate-publisher-controller";
const ACCOUNT: &str = "root-ca-cert-publisher";
const MAP: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION_KEY: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

pub(crate) async fn run(context: ClusterContext) {
    let Ok(maps) = context.objects(ACCOUNT, ("", "v1", "configmaps")) else { return };
    let ensure = |namespace: Text| {
        let (maps, context) = (&maps, &context);
        Box::pin(async move {
            let bundle = context.read_authorities().await?;
            ensure(maps, &namespace, &bundle).await
        }) as binnacle_request::BoxFuture<'_, Result<(), Status>>
    };
    let controller =
        PerNamespace { name: NAME, queue: "root_ca_cert_publisher", objects: &maps, object: MAP, ensure: &ensure };
    controller.run(&context).await;
}

async fn ensure(maps: &Objects, namespace: &str, bundle: &str) -> Result<(), Status> {
    let Some(map) = maps.get(namespace, MAP).await? else {
        let annotations = Value::Object(Object::from_iter([(DESCRIPTION_KEY, DESCRIPTION)]));
        let map = value!({
            "metadata": {"name": MAP, "namespace": namespace, "annotations": annotations},
            "data": (data(bundle)),
        });
        return match maps.create(namespace, map).await {
            Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
            created => created.map(drop),
        };
    };
    let is_described = !metadata(&map).at(ObjectMeta::ANNOTATIONS).key(DESCRIPTION_KEY).str().is_empty();
    if is_described && FieldRef::<ConfigMap>::root(&map).at(ConfigMap::DATA).value() == &data(bundle) {
        return Ok(());
    }
    let set = |map: &mut Value| {
        metadata_fields(map).map_entry(ObjectMeta::ANNOTATIONS).insert(DESCRIPTION_KEY, DESCRIPTION);
        FieldMut::<ConfigMap>::root(map).set(ConfigMap::DATA, data(bundle));
    };
    maps.update(namespace, MAP, "", set).await
}

fn data(bundle: &str) -> Value {
    Value::Object(Object::from_iter([(KEY, bundle)]))
}
