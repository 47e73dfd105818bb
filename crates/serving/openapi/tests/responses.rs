//! Responses to requests with various headers.

use binnacle_kinds::BuiltInKinds;
use binnacle_meta::Encodings;
use binnacle_openapi::{Document, OpenApi, OpenApiRequest, OpenApiResponse};
use binnacle_resources::{default_served, groups};
use binnacle_scheme::{ServedResources, Shared};
use serde_json::Value;

const VERSION: &str = "/openapi/v3/version";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

#[test]
fn matches_and_serves_paths() {
    let documents = documents_of(default_served());
    for (path, claimed, want) in [
        ("/openapi/v3", true, Some("index")),
        ("/openapi/v3/", true, Some("not found")),
        ("/openapi/v3/version", true, Some("document")),
        ("/openapi/v3/version/", true, Some("not found")),
        ("/openapi/v3/apis/apps/v9", true, Some("not found")),
        ("/openapi/v3x", false, None),
        ("/openapi/v2", true, Some("document")),
        ("/openapi/v2/", false, None),
        ("/openapi", false, None),
    ] {
        let response = documents.respond(&OpenApiRequest { path, ..OpenApiRequest::default() });
        let got = response.as_ref().map(|response| match response {
            OpenApiResponse::Index(_) => "index",
            OpenApiResponse::Document(_) => "document",
            OpenApiResponse::NotFound => "not found",
            _ => "something else",
        });
        assert_eq!(got, want, "{path}");
        assert_eq!(OpenApi::is_openapi_path(path), claimed, "{path}");
    }
}

/// Documents of built-in resources contain the emulated release, in both versions.
#[test]
fn reports_the_emulated_release() {
    for (release, path, want) in [
        (None, VERSION, "1.36"),
        (None, "/openapi/v2", "1.36"),
        (Some("1.33"), VERSION, "1.33"),
        (Some("1.33"), "/openapi/v2", "1.33"),
    ] {
        let documents = documents_of(default_served());
        let documents = release.into_iter().fold(documents, OpenApi::with_release);
        // An update keeps the release.
        let documents = documents.update(default_served().into(), std::sync::Arc::default());
        let Some(OpenApiResponse::Document(document)) =
            documents.respond(&OpenApiRequest { path, ..OpenApiRequest::default() })
        else {
            panic!("{path}")
        };
        let document: Value = serde_json::from_slice(&document.body.into_bytes()).unwrap();
        assert_eq!(document["info"]["version"], want, "{path}");
    }
}

#[test]
fn negotiates_formats() {
    let documents = documents_of(default_served());
    for (path, accept, want) in [
        (VERSION, "", Ok("application/json")),
        (VERSION, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", Ok(V3_PROTOBUF)),
        (VERSION, V3_PROTOBUF, Ok(V3_PROTOBUF)),
        (VERSION, V2_PROTOBUF, Err(OpenApiResponse::NotAcceptable)),
        (VERSION, "text/html", Err(OpenApiResponse::NotAcceptable)),
        (VERSION, "nonsense", Err(OpenApiResponse::Empty)),
        ("/openapi/v2", "*/*", Ok("application/json")),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", Ok(V2_PROTOBUF)),
        ("/openapi/v2", "application/yaml", Err(OpenApiResponse::NotAcceptable)),
        ("/openapi/v2", "nonsense", Err(OpenApiResponse::NotAcceptable)),
    ] {
        let response = documents.respond(&OpenApiRequest { path, accept, ..OpenApiRequest::default() }).unwrap();
        match (response, want) {
            (OpenApiResponse::Document(document), Ok(content_type)) => assert_eq!(document.content_type, content_type),
            (response, want) => assert_eq!(Err(response), want.map(str::to_owned), "{path} {accept}"),
        }
    }
}

#[test]
fn returns_not_modified_or_moved_by_etag_and_hash() {
    let documents = documents_of(default_served());
    let respond = |hash: &str, if_none_match: &str| {
        documents.respond(&OpenApiRequest { path: VERSION, hash, if_none_match, ..OpenApiRequest::default() }).unwrap()
    };
    let OpenApiResponse::Document(Document { etag, immutable: false, body, .. }) = respond("", "") else { panic!() };
    let hash = etag.trim_matches('"');
    assert_eq!(hash.len(), 128);

    let OpenApiResponse::Document(document) = respond(hash, "") else { panic!() };
    assert!(document.immutable && document.body == body && document.etag == etag);
    for (given, if_none_match, immutable) in [
        ("", etag.clone(), false),
        (hash, etag.clone(), true),
        ("", "*".to_owned(), false),
        ("", format!("\"other\", W/{etag}"), false),
    ] {
        assert_eq!(respond(given, &if_none_match), OpenApiResponse::NotModified { etag: etag.clone(), immutable });
    }
    assert!(matches!(respond("", "\"other\""), OpenApiResponse::Document(_)));
    let location = format!("{VERSION}?hash={hash}");
    assert_eq!(
        respond("0815", &etag),
        OpenApiResponse::Moved { etag: etag.clone(), content_type: "application/json", location: location.clone() }
    );

    // The index contains the same hash, regardless of the order of requests.
    let Some(OpenApiResponse::Index(index)) =
        documents_of(default_served()).respond(&OpenApiRequest { path: "/openapi/v3", ..OpenApiRequest::default() })
    else {
        panic!()
    };
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(index["paths"]["version"]["serverRelativeURL"], location);
}

/// The documents of all resources, with the definitions of every kind, can be encoded in protobuf.
#[test]
fn every_document_has_a_protobuf_encoding() {
    let documents = documents_of(all_resources());
    let Some(OpenApiResponse::Index(index)) =
        documents.respond(&OpenApiRequest { path: "/openapi/v3", ..OpenApiRequest::default() })
    else {
        panic!()
    };
    let index: Value = serde_json::from_slice(&index).unwrap();
    let names = index["paths"].as_object().unwrap().keys();
    let v3 = names.map(|name| (format!("/openapi/v3/{name}"), V3_PROTOBUF));
    for (path, protobuf) in v3.chain([("/openapi/v2".to_owned(), V2_PROTOBUF)]) {
        let size =
            |accept| match documents.respond(&OpenApiRequest { path: &path, accept, ..OpenApiRequest::default() }) {
                Some(OpenApiResponse::Document(document)) => document.body.len(),
                other => panic!("{path} {accept}: {other:?}"),
            };
        let (json, binary) = (size("application/json"), size(protobuf));
        assert!(binary > json / 2 && binary < json, "{path}: {json} bytes of JSON, {binary} of protobuf");
    }
}

#[test]
fn every_reference_has_a_definition() {
    fn walk(value: &Value, document: &Value, prefix: &str) {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{prefix}: {reference}");
        }
        match value {
            Value::Object(members) => members.values().for_each(|member| walk(member, document, prefix)),
            Value::Array(elements) => elements.iter().for_each(|element| walk(element, document, prefix)),
            _ => {}
        }
    }
    let documents = documents_of(all_resources());
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/resource.k8s.io/v1alpha3"] {
        let Some(OpenApiResponse::Document(document)) =
            documents.respond(&OpenApiRequest { path, ..OpenApiRequest::default() })
        else {
            panic!()
        };
        let document: Value = serde_json::from_slice(&document.body.into_bytes()).unwrap();
        walk(&document, &document, path);
    }
}

/// If CBOR is offered, the paths of group versions list it, and those of other documents do not.
#[test]
fn lists_cbor_media_types_if_offered() {
    let documents = [Encodings::STANDARD, Encodings::new(true)]
        .map(|encodings| documents_of(all_resources()).with_encodings(encodings));
    let [standard, with_cbor] = documents.map(|documents| {
        let request = OpenApiRequest { path: "/openapi/v2", ..OpenApiRequest::default() };
        let Some(OpenApiResponse::Document(document)) = documents.respond(&request) else { panic!() };
        serde_json::from_slice::<Value>(&document.body.into_bytes()).unwrap()
    });
    for (path, method, member, more) in [
        (
            "/api/v1/namespaces/{namespace}/configmaps",
            "get",
            "produces",
            &["application/cbor", "application/cbor-seq"][..],
        ),
        ("/api/v1/namespaces/{namespace}/configmaps", "post", "produces", &["application/cbor"]),
        ("/api/v1/namespaces/{namespace}/configmaps", "post", "consumes", &[]),
        ("/api/v1/namespaces/{namespace}/configmaps/{name}", "patch", "consumes", &["application/apply-patch+cbor"]),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", "get", "produces", &["application/cbor"]),
        ("/api/v1/", "get", "consumes", &["application/cbor"]),
        ("/api/", "get", "produces", &[]),
        ("/version/", "get", "produces", &[]),
    ] {
        let types = |document: &Value| document["paths"][path][method][member].as_array().unwrap().clone();
        let (before, after) = (types(&standard), types(&with_cbor));
        let added: Vec<&Value> = after.iter().filter(|known| !before.contains(known)).collect();
        assert_eq!(
            added,
            more.iter().map(|name| Value::from(*name)).collect::<Vec<_>>().iter().collect::<Vec<_>>(),
            "{method} {path}"
        );
    }
}

/// Returns all built-in resources.
fn all_resources() -> ServedResources {
    ServedResources::built_in(groups(), |_, resource| Some(resource.clone()))
}

fn documents_of(served: ServedResources) -> OpenApi {
    OpenApi::new(served.into(), Shared::Static(&BuiltInKinds))
}
