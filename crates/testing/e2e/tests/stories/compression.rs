//! Large responses are compressed for clients that accept gzip; the content is the same, and streams are never
//! compressed.

use std::io::Read;
use std::time::Duration;

use binnacle_testkit::https::Client;
use binnacle_testkit::{Kubectl, Kubelet, Server};
use flate2::read::GzDecoder;
use http::HeaderMap;
use http_body_util::BodyExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Returns text that is neither uniform nor random.
fn text(size: usize) -> String {
    (0..size).map(|n| char::from(b"the quick brown fox\n"[n / 5 * (n % 11) % 20])).collect()
}

fn config_map(name: &str, size: usize) -> String {
    // Every representation of an object has its annotations.
    let (data, note) = (text(size), text(size / 2));
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": {"note": note}}, "data": {"text": data}
    })
    .to_string()
}

async fn make(client: &mut Client, name: &str, size: usize) {
    let json = [("content-type", "application/json")];
    let answer = client.send("POST", MAPS, &json, config_map(name, size)).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

async fn get(client: &mut Client, path: &str, headers: &[(&str, &str)]) -> (HeaderMap, Vec<u8>) {
    let (parts, body) = client.open("GET", path, headers, "").await.unwrap().into_parts();
    assert_eq!(parts.status, 200, "{path}");
    (parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
}

fn values(headers: &HeaderMap, name: &str) -> String {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
    values.join("; ")
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn compresses_large_lists_and_objects() {
    let server = Server::ephemeral();
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.connect(&server.admin().alpn(&[alpn])).await;
        if alpn == "h2" {
            for n in 0..40 {
                make(&mut client, &format!("map-{n}"), 8_000).await;
            }
            make(&mut client, "one", 200_000).await;
        }
        // The server writes too, so both answers must have the same version.
        let (_, now) = get(&mut client, &format!("{MAPS}?limit=1"), &[]).await;
        let now: serde_json::Value = serde_json::from_slice(&now).unwrap();
        let version = now["metadata"]["resourceVersion"].as_str().unwrap();
        let list = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
        let (one, small) = (format!("{MAPS}/one"), format!("{MAPS}/map-1"));
        let table = format!("{list}&includeObject=Object");
        let page = format!("{list}&limit=30");
        for (path, accept, large) in [
            (&list, "application/json", true),
            (&list, "application/yaml", true),
            (&list, PROTOBUF, true),
            (&list, METADATA, true),
            (&list, TABLE, true),
            (&table, TABLE, true),
            (&page, PROTOBUF, true),
            (&one, "application/json", true),
            (&one, "application/yaml", true),
            (&one, PROTOBUF, true),
            (&small, "application/json", false),
            (&small, PROTOBUF, false),
        ] {
            let (plain_headers, plain) = get(&mut client, path, &[("accept", accept)]).await;
            assert_eq!(plain.len() > 128 * 1024, large, "{alpn} {path} {accept}: {}", plain.len());
            assert_eq!(values(&plain_headers, "content-encoding"), "", "{path} {accept}");
            assert_eq!(values(&plain_headers, "vary"), "", "{path} {accept}");
            for encodings in ["gzip", "deflate, gzip", "gzip;q=1.0", "identity"] {
                let wanted = [("accept", accept), ("accept-encoding", encodings)];
                let (headers, body) = get(&mut client, path, &wanted).await;
                // Like kube-apiserver, which searches for the bare token.
                let packed = large && encodings.ends_with("gzip");
                let what = format!("{alpn} {path} {accept} {encodings}");
                assert_eq!(values(&headers, "content-encoding"), if packed { "gzip" } else { "" }, "{what}");
                assert_eq!(values(&headers, "vary"), if packed { "Accept-Encoding" } else { "" }, "{what}");
                assert_eq!(values(&headers, "content-type"), values(&plain_headers, "content-type"), "{what}");
                assert!(!packed || !headers.contains_key("content-length"), "{what}");
                assert!(!packed || body.len() < plain.len() / 2, "{what}: {} of {}", body.len(), plain.len());
                let body = if packed { unpacked(&body) } else { body };
                // The age column of a table changes.
                let varies = accept == TABLE;
                assert!(body == plain || varies && body.len().abs_diff(plain.len()) < 200, "{what}");
            }
        }
        // Responses to writes are objects as well.
        let change = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        let headers = [("content-type", "application/merge-patch+json"), ("accept-encoding", "gzip")];
        let (parts, body) = client.open("PATCH", &one, &headers, change).await.unwrap().into_parts();
        assert_eq!((parts.status.as_u16(), values(&parts.headers, "content-encoding").as_str()), (200, "gzip"));
        let body = unpacked(&body.collect().await.unwrap().to_bytes());
        let object: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(object["metadata"]["labels"]["a"], "b");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_compresses_streams() {
    let kubelet = Kubelet::start();
    let flags = kubelet.flags();
    let mut arguments = vec!["--ephemeral", "--secure-port=0"];
    arguments.extend(flags.iter().map(String::as_str));
    let server = Server::start(&arguments);
    let mut client = server.client().await;
    make(&mut client, "one", 200_000).await;
    make(&mut client, "two", 200_000).await;

    let path = format!("{MAPS}?watch=true&resourceVersion=0");
    let watch = client.open("GET", &path, &[("accept-encoding", "gzip")], "").await.unwrap();
    assert_eq!((values(watch.headers(), "content-encoding"), values(watch.headers(), "vary")), Default::default());
    let (mut body, mut seen) = (watch.into_body(), Vec::new());
    while seen.iter().filter(|byte| **byte == b'\n').count() < 2 {
        let frame = tokio::time::timeout(Duration::from_secs(30), body.frame()).await.unwrap().unwrap().unwrap();
        seen.extend_from_slice(frame.data_ref().unwrap());
    }
    assert!(seen.starts_with(br#"{"type":"ADDED","object":{"#), "{}", String::from_utf8_lossy(&seen[..80]));

    let json = [("content-type", "application/json")];
    let status = format!(
        r#"{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{}}}}}}}"#,
        kubelet.port()
    );
    let mut client = server.client().await;
    for (method, path, body) in [
        (
            "POST",
            "/api/v1/namespaces/default/serviceaccounts",
            r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}"#.to_owned(),
        ),
        ("POST", "/api/v1/nodes", r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#.to_owned()),
        (
            "PUT",
            "/api/v1/nodes/n/status",
            format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n"}},"status":{status}}}"#),
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#
                .to_owned(),
        ),
    ] {
        let answer = client.send(method, path, &json, body).await.unwrap();
        assert!(answer.status < 300, "{path}: {}", answer.body);
    }
    let line = text(300_000).replace('\n', " ");
    kubelet.log(&line);
    let path = "/api/v1/namespaces/default/pods/p/log";
    let (headers, body) = get(&mut client, path, &[("accept-encoding", "gzip")]).await;
    assert_eq!((values(&headers, "content-encoding"), values(&headers, "vary")), Default::default());
    assert!(body == format!("{line}\n").as_bytes(), "{} bytes", body.len());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn kubectl_reads_compressed_lists() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let mut client = server.client().await;
    for n in 0..20 {
        make(&mut client, &format!("map-{n}"), 16_000).await;
    }
    let list = kubectl.json(&["get", "configmaps", "-l", "!none"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 20);
    assert_eq!(list["items"][3]["data"]["text"].as_str().unwrap(), text(16_000));
    // Go's client removes the encoding; the `Vary` header remains visible.
    let told = kubectl.run(&["get", "--raw", MAPS, "-v=8"]);
    assert!(told.success && told.err.contains("Accept-Encoding"), "{}", told.err.lines().take(40).collect::<String>());
    let told = kubectl.run(&["get", "--raw", &format!("{MAPS}/map-1"), "-v=8"]);
    assert!(told.success && !told.err.contains("Vary"), "{}", told.err.lines().take(40).collect::<String>());
}

#[tokio::test(flavor = "multi_thread")]
async fn compresses_the_openapi_document() {
    const OPENAPI: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let server = Server::ephemeral();
    let mut client = server.client().await;
    for accept in ["application/json", OPENAPI] {
        let (headers, plain) = get(&mut client, "/openapi/v2", &[("accept", accept)]).await;
        assert_eq!((values(&headers, "content-encoding").as_str(), headers.get_all("vary").iter().count()), ("", 2));
        for (encodings, packed) in [("gzip", true), ("gzip;q=0.5", true), ("gzip;q=0", false)] {
            let wanted = [("accept", accept), ("accept-encoding", encodings)];
            let (headers, body) = get(&mut client, "/openapi/v2", &wanted).await;
            assert_eq!(values(&headers, "content-encoding"), if packed { "gzip" } else { "" }, "{encodings}");
            assert!((if packed { unpacked(&body) } else { body }) == plain, "{accept} {encodings}");
            let etag = headers["etag"].to_str().unwrap();
            let again = [("accept", accept), ("accept-encoding", encodings), ("if-none-match", etag)];
            let answer = client.send("GET", "/openapi/v2", &again, "").await.unwrap();
            assert_eq!((answer.status, answer.header("content-encoding"), answer.body.as_str()), (304, "", ""));
        }
    }
    let (headers, _) = get(&mut client, "/openapi/v3/api/v1", &[("accept-encoding", "gzip")]).await;
    assert_eq!((values(&headers, "content-encoding").as_str(), values(&headers, "vary").as_str()), ("", "Accept"));
}
