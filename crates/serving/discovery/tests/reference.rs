//! Compares the documents with the recorded ones, including the order of members and elements.
#![expect(clippy::unwrap_used, reason = "a test may panic in its helpers, too")]

use std::path::Path;
use std::sync::Arc;

use binnacle_discovery::{AddressRule, Addresses, Discovery, DiscoveryRequest, DiscoveryResponse, Document};
use binnacle_meta::Encoding;
use binnacle_resources::default_served;
use binnacle_scheme::{
    CUSTOM_RESOURCE_PRIORITIES, Resources, ServedResources, ServedVersion, SubresourceDescription, VerbOrder,
};
use binnacle_test_requirements::shared;
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn documents_equal_recorded_ones() {
    let discovery = discovery();
    let mut compared = 0;
    for entry in std::fs::read_dir(shared("reference/discovery")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let (path, accept) = match name.strip_suffix(".aggregated") {
            Some(root) => (format!("/{root}"), AGGREGATED),
            None => (format!("/{}", name.replacen('_', "/", 2)), "application/json"),
        };
        let document = get(&discovery, &path, accept);
        assert_eq!(document.content_type, accept, "{path}");
        assert_same(&document.body, &file, &path);
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

/// Checks that both documents are equal except for white space, so that the order of members is compared too.
fn assert_same(ours: &[u8], file: &Path, path: &str) {
    let recorded = std::fs::read(file).unwrap();
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(parse(ours), parse(&recorded), "{path}");
    // No string in these documents contains white space.
    let bare =
        |bytes: &[u8]| -> String { String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_whitespace()).collect() };
    assert_eq!(bare(ours), bare(&recorded), "{path}: order of members");
}

#[test]
fn returns_status_by_method_path_and_accept() {
    let discovery = discovery();
    let status = |response: &DiscoveryResponse| match response {
        DiscoveryResponse::Document(_) => 200,
        DiscoveryResponse::NotModified { .. } => 304,
        DiscoveryResponse::NotFound => 404,
        DiscoveryResponse::Failure(status) => status.code(),
    };
    for (method, path, accept, expected) in [
        ("GET", "/apis/nothing.test", "", Some(404)),
        ("GET", "/apis/nothing.test/v1", "", Some(404)),
        ("GET", "/apis/apps/v9", "", Some(404)),
        ("GET", "/api/v2", "", Some(404)),
        ("GET", "/apis/storagemigration.k8s.io", "", Some(404)),
        ("GET", "/apis/", "", Some(200)),
        ("GET", "/apis/apps/v1/", "", Some(200)),
        ("GET", "/apis/", AGGREGATED, Some(406)),
        ("POST", "/api", "", Some(405)),
        ("POST", "/apis", "", Some(200)),
        ("POST", "/apis/apps", "", Some(200)),
        ("POST", "/apis/apiregistration.k8s.io", "", Some(405)),
        ("DELETE", "/apis/apps/v1", "", Some(405)),
        ("GET", "/api", "text/html", Some(406)),
        ("GET", "/apis", "text/html", Some(406)),
        ("GET", "/apis", "application/*", Some(200)),
        ("GET", "/api", "application/*", Some(406)),
        ("GET", "/api/v1", AGGREGATED, Some(406)),
        ("GET", "/apis/apps/v1/deployments", "", None),
        ("GET", "/healthz", "", None),
    ] {
        let response = discovery.respond(&DiscoveryRequest { method, path, accept, ..DiscoveryRequest::default() });
        assert_eq!(response.as_ref().map(status), expected, "{method} {path} {accept}");
    }
    // Only a built-in group returns a Status for missing versions.
    let respond = |path| discovery.respond(&DiscoveryRequest { method: "GET", path, ..DiscoveryRequest::default() });
    assert_eq!(respond("/apis/nothing.test/v1"), Some(DiscoveryResponse::NotFound));
    let Some(DiscoveryResponse::Failure(failure)) = respond("/apis/apps/v9") else { panic!() };
    assert_eq!(failure.message(), "the server could not find the requested resource");
    let Some(DiscoveryResponse::Failure(failure)) = discovery.respond(&DiscoveryRequest {
        method: "GET",
        path: "/api",
        accept: "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        ..DiscoveryRequest::default()
    }) else {
        panic!()
    };
    assert_eq!(
        failure.message(),
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
}

#[test]
fn returns_not_modified_for_matching_etag() {
    let discovery = discovery();
    let etag = get(&discovery, "/apis", AGGREGATED).etag.unwrap();
    assert_eq!(etag.len(), 130);
    let request = |if_none_match| DiscoveryRequest {
        method: "GET",
        path: "/apis",
        accept: AGGREGATED,
        content_type: "",
        if_none_match,
        client: None,
    };
    assert_eq!(discovery.respond(&request(&etag)), Some(DiscoveryResponse::NotModified { etag: etag.clone() }));
    assert!(matches!(discovery.respond(&request("\"other\"")), Some(DiscoveryResponse::Document(_))));
    assert_ne!(get(&discovery, "/api", AGGREGATED).etag.unwrap(), etag);

    let mut served = ServedResources::clone(discovery.served());
    served.insert("a.test".into(), widgets());
    let changed = Discovery::new(served.into(), Addresses::default());
    assert_ne!(get(&changed, "/apis", AGGREGATED).etag.unwrap(), etag);
}

#[test]
fn lists_custom_resources() {
    let mut served = default_served();
    served.insert("a.test".into(), widgets());
    let discovery = Discovery::new(served.into(), Addresses::default());
    let value = |path, accept| serde_json::from_slice::<Value>(&get(&discovery, path, accept).body).unwrap();

    let verbs = json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    let some_verbs = json!(["get", "patch", "update"]);
    assert_eq!(
        value("/apis/a.test/v1", ""),
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "a.test/v1", "resources": [
            {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": verbs,
             "shortNames": ["wd"], "storageVersionHash": "XO+FcL+ZFzw="},
            {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget", "verbs": some_verbs},
            {"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
             "kind": "Scale", "verbs": some_verbs}
        ]})
    );
    let aggregated = value("/apis", AGGREGATED);
    assert_eq!(
        aggregated["items"].as_array().unwrap().last().unwrap(),
        &json!({"metadata": {"name": "a.test"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
            {"resource": "widgets", "responseKind": {"group": "a.test", "version": "v1", "kind": "Widget"},
             "scope": "Namespaced", "singularResource": "widget", "verbs": verbs, "shortNames": ["wd"], "subresources": [
                {"subresource": "status", "responseKind": {"group": "a.test", "version": "v1", "kind": "Widget"},
                 "verbs": some_verbs},
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                 "verbs": some_verbs}
            ]}
        ]}]})
    );
    let respond = |method, path, accept, content_type| {
        discovery.respond(&DiscoveryRequest { method, path, accept, content_type, ..DiscoveryRequest::default() })
    };
    assert_eq!(respond("GET", "/apis/a.test/v2", "", ""), Some(DiscoveryResponse::NotFound));
    // Only the documents of built-in groups have a router.
    let statuses = |path| {
        [("POST", "", ""), ("GET", "", "x/y"), ("GET", "text/html", "")].map(|(method, accept, content_type)| {
            let response = respond(method, path, accept, content_type).unwrap();
            match &response {
                DiscoveryResponse::Failure(failure) => format!("{} {}", failure.code(), failure.message()),
                DiscoveryResponse::Document(_) => "200".to_owned(),
                other => panic!("{path}: {other:?}"),
            }
        })
    };
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let [custom, built_in] = ["/apis/a.test/v1", "/apis/apps/v1"].map(statuses);
    assert_eq!(custom, ["200", "200", &format!("406 only the following media types are accepted: {types}")]);
    assert_eq!(
        built_in,
        [
            "405 the server does not allow this method on the requested resource",
            "415 415: Unsupported Media Type",
            &format!("406 406: Not Acceptable\n\nAvailable representations: {types}"),
        ]
    );
}

#[test]
fn returns_server_address_by_client_network() {
    let addresses = Addresses {
        default: "192.0.2.2:6443".into(),
        rules: vec![AddressRule { network: [10, 0, 0, 0].into(), prefix_length: 24, address: "10.0.0.1:443".into() }],
    };
    let discovery = Discovery::new(Arc::new(default_served()), addresses);
    let addresses_for = |client: [u8; 4]| {
        let request = DiscoveryRequest {
            method: "GET",
            path: "/api",
            client: Some(client.into()),
            ..DiscoveryRequest::default()
        };
        let Some(DiscoveryResponse::Document(document)) = discovery.respond(&request) else { panic!() };
        serde_json::from_slice::<Value>(&document.body).unwrap()["serverAddressByClientCIDRs"].clone()
    };
    let default = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.2:6443"});
    assert_eq!(addresses_for([192, 0, 2, 7]), json!([default]));
    assert_eq!(
        addresses_for([10, 0, 0, 7]),
        json!([default, {"clientCIDR": "10.0.0.0/24", "serverAddress": "10.0.0.1:443"}])
    );
}

#[test]
fn yaml_sorts_members_by_name() {
    let document = get(&discovery(), "/apis/policy", "application/yaml");
    assert_eq!(document.content_type, "application/yaml");
    assert_eq!(
        String::from_utf8_lossy(&document.body),
        "apiVersion: v1\nkind: APIGroup\nname: policy\npreferredVersion:\n  groupVersion: policy/v1\n  version: v1\n\
         versions:\n- groupVersion: policy/v1\n  version: v1\n"
    );
    // YAML 1.1 parses some short names as booleans, so they are quoted.
    let nodes = get(&discovery(), "/api/v1", "application/yaml");
    assert!(String::from_utf8_lossy(&nodes.body).contains("shortNames:\n  - \"no\"\n"));
}

#[test]
fn protobuf_documents_have_an_envelope() {
    let discovery = discovery();
    for (path, api_version, kind) in [
        ("/api", "", "APIVersions"),
        ("/api/v1", "", "APIResourceList"),
        ("/apis", "v1", "APIGroupList"),
        ("/apis/apps", "v1", "APIGroup"),
        ("/apis/apps/v1", "v1", "APIResourceList"),
    ] {
        let document = get(&discovery, path, "application/vnd.kubernetes.protobuf");
        assert_eq!(document.encoding, Encoding::Protobuf);
        let type_meta =
            [&[10, api_version.len() as u8], api_version.as_bytes(), &[18, kind.len() as u8], kind.as_bytes()].concat();
        let head = [b"k8s\0\x0a".as_slice(), &[type_meta.len() as u8], &type_meta, &[18]].concat();
        assert!(document.body.starts_with(&head), "{path}: {:?}", &document.body[..40]);
    }
}

fn discovery() -> Discovery {
    Discovery::new(Arc::new(default_served()), Addresses { default: "192.0.2.2:7443".into(), rules: Vec::new() })
}

fn get(discovery: &Discovery, path: &str, accept: &str) -> Document {
    match discovery.respond(&DiscoveryRequest { method: "GET", path, accept, ..DiscoveryRequest::default() }) {
        Some(DiscoveryResponse::Document(document)) => document,
        other => panic!("{path}: {other:?}"),
    }
}

fn widgets() -> ServedVersion {
    let (group_priority, version_priority) = CUSTOM_RESOURCE_PRIORITIES;
    let mut widgets = binnacle_scheme::namespaced!("a.test", "v1", "widgets", "widget", "Widget")
        .short(&["wd"])
        .subresources([SubresourceDescription::status(&[]), SubresourceDescription::scale()]);
    widgets.verb_order = VerbOrder::CustomResource;
    ServedVersion {
        version: "v1".into(),
        group_priority,
        version_priority,
        resources: Resources::Custom(Arc::new([Arc::new(widgets)])),
        stale: false,
    }
}
