//! Updates of the documents: after a change of the served resources, documents with reused parts equal new ones.

use std::io::Read;
use std::sync::Arc;

use binnacle_kinds::BuiltInKinds;
use binnacle_openapi::{OpenApi, OpenApiRequest, OpenApiResponse};
use binnacle_resources::default_served;
use binnacle_schema::{Value, value};
use binnacle_scheme::{
    OpenApiDefinitions, OpenApiVersion, ResourceDescription, Resources, ServedResources, ServedVersion, Shared,
    SubresourceDescription,
};
use flate2::read::GzDecoder;

#[derive(Debug)]
struct PublishedSchema(i64);

impl OpenApiDefinitions for PublishedSchema {
    fn object(&self, _: OpenApiVersion) -> Value {
        value!({"type": "object", "properties": {"n": {"type": "integer", "maximum": (self.0)}}})
    }

    fn list(&self, _: OpenApiVersion) -> Value {
        value!({"type": "object"})
    }
}

fn resource(group: &str, plural: &str, n: i64) -> Arc<ResourceDescription> {
    let kind = format!("Kind{plural}");
    let names = [group, "v1", plural, "", &kind, &format!("{kind}List")].map(Into::into);
    let mut description = ResourceDescription::new(names, n % 2 == 0);
    description.subresources = vec![SubresourceDescription::scale()];
    description.published = Some(Arc::new(PublishedSchema(n)));
    Arc::new(description)
}

fn serve(served: &ServedResources, group: &str, resources: Vec<Arc<ResourceDescription>>) -> ServedResources {
    let mut served = served.clone();
    let version = ServedVersion {
        version: "v1".into(),
        group_priority: 1000,
        version_priority: 100,
        resources: Resources::Custom(resources.into()),
        stale: false,
    };
    served.insert(group.into(), version);
    served
}

fn v2(documents: &OpenApi, accept: &str, accept_encoding: &str) -> (String, Vec<u8>) {
    let request = OpenApiRequest { path: "/openapi/v2", accept, accept_encoding, ..OpenApiRequest::default() };
    let Some(OpenApiResponse::Document(document)) = documents.respond(&request) else { panic!("no document") };
    assert_eq!(document.compressed, !accept_encoding.is_empty());
    (document.etag, document.body.into_bytes().to_vec())
}

#[test]
fn updated_documents_equal_new_ones() {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let rebuilt = |served: &ServedResources| OpenApi::new(served.clone().into(), Shared::Static(&BuiltInKinds));
    let begin = default_served();
    let (a, b, changed) = (resource("a.test", "as", 1), resource("a.test", "as-bs", 2), resource("a.test", "as", 3));
    let one = serve(&begin, "a.test", vec![a.clone()]);
    let two = serve(&one, "a.test", vec![a, b.clone()]);
    let three = serve(&two, "b.test", vec![resource("b.test", "cs", 4)]);
    let four = serve(&three, "a.test", vec![changed, b]);
    let mut documents = rebuilt(&begin);
    let mut tags = Vec::new();
    for served in [begin.clone(), one, two, three, four, begin] {
        documents = documents.update(served.clone().into(), Arc::default());
        let (tag, json) = v2(&documents, "", "");
        assert_eq!((&tag, &json), (&v2(&rebuilt(&served), "", "").0, &v2(&rebuilt(&served), "", "").1));
        let tree: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let published =
            tree["definitions"].as_object().unwrap().keys().filter(|name| name.starts_with("test.")).count();
        let resources = served.groups().into_iter().flat_map(|group| &group.versions);
        let custom = resources.filter(|version| matches!(version.resources, Resources::Custom(_)));
        assert_eq!(published, custom.map(|version| version.resources.own().len() * 2).sum::<usize>());
        for accept in ["", PROTOBUF] {
            let (plain, compressed) = (v2(&documents, accept, "").1, v2(&documents, accept, "gzip").1);
            assert_eq!(plain, v2(&rebuilt(&served), accept, "").1);
            let mut decompressed = Vec::new();
            GzDecoder::new(&*compressed).read_to_end(&mut decompressed).unwrap();
            assert!(decompressed == plain);
            assert!(compressed.len() * 4 < plain.len(), "{} bytes of {}", compressed.len(), plain.len());
        }
        tags.push(tag);
    }
    assert_eq!(tags.first(), tags.last());
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 5);
}
