//! A client that only uses protobuf, with its own encoder: the `.proto` files of the API define the bytes.

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use http_body_util::BodyExt;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn serves_a_protobuf_client() {
    let server = Server::ephemeral();
    let (mut client, mut watcher) = (server.client().await, server.client().await);

    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Dplain");
    let watch = watcher.open("GET", &path, &accept, "").await.unwrap();
    assert_eq!(watch.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut watch = Frames { body: watch.into_body(), rest: Vec::new() };

    let (status, made) = call(&mut client, "POST", MAPS, &config_map("plain", "", &[("a", "1"), ("b", "")])).await;
    assert_eq!((status, made.kind.as_str()), (201, "v1 ConfigMap"));
    let meta = made.message.nested(1);
    assert_eq!((meta.text(1), meta.text(3)), ("plain".into(), "default".into()));
    assert_eq!(made.data(), [("a".into(), "1".into()), ("b".into(), String::new())]);
    let version = meta.text(6);
    assert!(!meta.text(5).is_empty() && !version.is_empty(), "uid and version");

    // A second create is a conflict, also in protobuf.
    let (status, again) = call(&mut client, "POST", MAPS, &config_map("plain", "", &[])).await;
    assert_eq!((status, again.kind.as_str()), (409, "v1 Status"));
    assert_eq!(again.message.text(4), "AlreadyExists");

    let one = format!("{MAPS}/plain");
    let (status, updated) = call(&mut client, "PUT", &one, &config_map("plain", &version, &[("c", "2")])).await;
    assert_eq!((status, updated.data()), (200, vec![("c".into(), "2".into())]));
    let (status, stale) = call(&mut client, "PUT", &one, &config_map("plain", &version, &[])).await;
    assert_eq!((status, stale.message.text(4)), (409, "Conflict".into()));

    let (status, list) = call(&mut client, "GET", MAPS, b"").await;
    assert_eq!((status, list.kind.as_str()), (200, "v1 ConfigMapList"));
    assert!(list.message.all(2).iter().any(|item| Message(item).nested(1).text(1) == "plain"));

    // The same object as in JSON.
    let json = client.get(&one).await.unwrap();
    assert!(json.body.contains(r#""data":{"c":"2"}"#), "{}", json.body);

    // A failing precondition, then a successful one.
    let uid = meta.text(5);
    for (uid, want) in [("other", 409), (uid.as_str(), 200)] {
        let options = envelope("v1", "DeleteOptions", &field(2, &field(1, uid.as_bytes())));
        let (status, answer) = call(&mut client, "DELETE", &one, &options).await;
        assert_eq!((status, answer.kind.as_str()), (want, "v1 Status"));
    }
    let (status, gone) = call(&mut client, "GET", &one, b"").await;
    assert_eq!((status, gone.message.text(4)), (404, "NotFound".into()));

    for want in ["ADDED", "MODIFIED", "DELETED"] {
        let frame = watch.next().await;
        let event = Message(&frame);
        assert_eq!(event.text(1), want);
        let object = Answer::of(event.nested(2).bytes(1));
        assert_eq!((object.kind.as_str(), object.message.nested(1).text(1)), ("v1 ConfigMap", "plain".into()));
    }
}

async fn call(client: &mut Client, method: &str, path: &str, body: &[u8]) -> (u16, Answer) {
    let headers = [("accept", PROTOBUF), ("content-type", PROTOBUF)];
    let answer = client.open(method, path, &headers, body).await.unwrap();
    assert_eq!(answer.headers()["content-type"], PROTOBUF, "{method} {path}");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, Answer::of(&body))
}

/// `ConfigMap {metadata = 1, data = 2}`, `ObjectMeta {name = 1, resourceVersion = 6}`.
fn config_map(name: &str, version: &str, data: &[(&str, &str)]) -> Vec<u8> {
    let meta = [field(1, name.as_bytes()), field(6, version.as_bytes())].concat();
    let mut message = field(1, &meta);
    for (key, value) in data {
        message.extend(field(2, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat()));
    }
    envelope("v1", "ConfigMap", &message)
}

/// `Unknown {typeMeta {apiVersion = 1, kind = 2} = 1, raw = 2}` after its magic number.
fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, message)].concat()
}

fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(content);
    out
}

/// A decoded envelope.
struct Answer {
    /// `apiVersion kind`
    kind: String,
    message: MessageBuffer,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let unknown = Message(bytes.strip_prefix(b"k8s\0").expect("the magic"));
        let meta = unknown.nested(1);
        Self { kind: format!("{} {}", meta.text(1), meta.text(2)), message: MessageBuffer(unknown.bytes(2).to_vec()) }
    }

    fn data(&self) -> Vec<(String, String)> {
        let entries = self.message.all(2);
        entries.into_iter().map(|entry| (Message(entry).text(1), Message(entry).text(2))).collect()
    }
}

struct MessageBuffer(Vec<u8>);

impl MessageBuffer {
    fn nested(&self, tag: u64) -> Message<'_> {
        Message(&self.0).nested(tag)
    }

    fn text(&self, tag: u64) -> String {
        Message(&self.0).text(tag)
    }

    fn all(&self, tag: u64) -> Vec<&[u8]> {
        Message(&self.0).all(tag)
    }
}

/// A message with accessors for its fields.
struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// Returns the contents of all length-delimited fields of a number.
    fn all(&self, tag: u64) -> Vec<&'a [u8]> {
        let (mut rest, mut found) = (self.0, Vec::new());
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let length = match key & 7 {
                0 => {
                    varint(&mut rest);
                    0
                }
                1 => 8,
                2 => varint(&mut rest) as usize,
                5 => 4,
                other => panic!("wire type {other}"),
            };
            let (content, after) = rest.split_at(length);
            rest = after;
            if key == tag << 3 | 2 {
                found.push(content);
            }
        }
        found
    }

    /// Returns the last field with this number, which takes precedence in protobuf.
    fn bytes(&self, tag: u64) -> &'a [u8] {
        self.all(tag).last().copied().unwrap_or_default()
    }

    fn nested(&self, tag: u64) -> Message<'a> {
        Message(self.bytes(tag))
    }

    fn text(&self, tag: u64) -> String {
        String::from_utf8(self.bytes(tag).to_vec()).unwrap()
    }
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = rest[0];
        *rest = &rest[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// A stream of messages, each with a length prefix of four bytes.
struct Frames<B> {
    body: B,
    rest: Vec<u8>,
}

impl<B: http_body_util::BodyExt<Data: AsRef<[u8]>, Error: std::fmt::Debug> + Unpin> Frames<B> {
    async fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some((head, after)) = self.rest.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*head) as usize;
                if after.len() >= length {
                    let frame = after[..length].to_vec();
                    self.rest.drain(..4 + length);
                    return frame;
                }
            }
            let frame = self.body.frame().await.expect("the stream goes on").unwrap();
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(data.as_ref());
            }
        }
    }
}
