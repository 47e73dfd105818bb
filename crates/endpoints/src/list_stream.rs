//! Lists as streams: the head, the objects' bytes as they are kept, the tail. Nothing is assembled but for readers
//! that want it indented or as YAML.

use std::sync::Arc;
use std::time::SystemTime;

use binnacle_meta::Status;
use binnacle_registry::{Page, Resource};
use binnacle_request::latency::{Part, measure};
use binnacle_request::{Body, Response};
use binnacle_schema::{Object, Value, json, proto};
use binnacle_watchcache::Entry;
use http::header::{CONTENT_TYPE, HeaderValue};

use crate::gathered::Gathered;
use crate::negotiate::{Encoding, MetaVersion, Output, Transform};
use crate::table::Include;
use crate::{partial, respond, table};

/// A list in the negotiated form.
pub(crate) fn response(
    resource: Arc<Resource>,
    output: Output,
    include: Include,
    page: Page,
) -> Result<Response, Status> {
    if let Transform::PartialMetadata(_) = output.transform {
        let what = resource.collection.go_type("List");
        let why = format!("you requested PartialObjectMetadata, but the requested object is a list ({what})");
        return Err(Status::not_acceptable_text(&why));
    }
    let whole = output.pretty || output.encoding == Encoding::Yaml;
    if whole {
        let (value, message) = assembled(&resource, output, include, page)?;
        let body = respond::encode(&value, message, output.encoding, output.pretty);
        return Ok(respond::bytes(200, output.encoding.media_type(), body));
    }
    let body = match (output.encoding, output.transform) {
        (Encoding::Protobuf, Transform::None) => protobuf(&resource, page)?,
        (Encoding::Protobuf, _) => {
            let (value, message) = assembled(&resource, output, include, page)?;
            Body::full(respond::encode(&value, message, output.encoding, false))
        }
        _ => json_stream(resource, output, include, page)?,
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(output.encoding.media_type()));
    Ok(response)
}

/// The list's metadata: where the client can go on.
fn metadata(page: &Page) -> Object {
    let mut metadata = Object::new();
    metadata.insert("resourceVersion", page.revision.0.to_string());
    if let Some(token) = &page.continue_token {
        metadata.insert("continue", token.as_str());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount", remaining as i64);
    }
    metadata
}

/// What stands around the items of a JSON list, and between them.
fn frame(resource: &Resource, transform: Transform, page: &Page) -> (Vec<u8>, &'static str) {
    let (kind, api_version, rest) = match transform {
        Transform::None => (resource.description.list_kind, resource.api_version().to_owned(), "\"items\":["),
        Transform::Table(version) => ("Table", version.api_version().to_owned(), "\"columnDefinitions\":"),
        Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
            ("PartialObjectMetadataList", version.api_version().to_owned(), "\"items\":[")
        }
    };
    let mut head = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").into_bytes();
    json::write(&Value::Object(metadata(page)), &mut head);
    head.push(b',');
    head.extend_from_slice(rest.as_bytes());
    if matches!(transform, Transform::Table(_)) {
        json::write(&table::columns(resource).definitions_value(), &mut head);
        head.extend_from_slice(b",\"rows\":[");
    }
    (head, "]}\n")
}

fn json_stream(resource: Arc<Resource>, output: Output, include: Include, mut page: Page) -> Result<Body, Status> {
    let (head, tail) = frame(&resource, output.transform, &page);
    if let (Transform::Table(_), Some(order)) = (output.transform, table::columns(&resource).order) {
        return sorted_table(&resource, output, include, page, head, tail, order);
    }
    let chunk = page.next_chunk();
    let unfilled = match output.transform {
        Transform::None => false,
        Transform::Table(_) => table::has_null_rows(&resource),
        Transform::PartialMetadata(_) | Transform::PartialMetadataList(_) => true,
    };
    if chunk.is_none() && unfilled {
        // Go writes a list that nobody put anything into as null.
        let mut body = head;
        body.pop();
        body.extend_from_slice(b"null}\n");
        return Ok(Body::full(body));
    }
    let mut gathered = Gathered::from(head);
    let mut first = true;
    let mut pending = chunk.unwrap_or_default().into_iter();
    let mut done = false;
    let mut piece = move || {
        if done {
            return None;
        }
        loop {
            let Some(entry) = pending.next() else {
                match page.next_chunk() {
                    Some(chunk) => {
                        pending = chunk.into_iter();
                        continue;
                    }
                    None => {
                        done = true;
                        gathered.small.extend_from_slice(tail.as_bytes());
                        return Some(Ok(gathered.take()));
                    }
                }
            };
            if !std::mem::take(&mut first) {
                gathered.small.push(b',');
            }
            if let Err(status) = write_item(&resource, output.transform, include, &entry, &mut gathered) {
                done = true;
                return Some(Err(status));
            }
            if gathered.is_enough() {
                return Some(Ok(gathered.take()));
            }
        }
    };
    // What is made of each item is measured there.
    let whole = output.transform == Transform::None;
    let mut pieces = std::iter::from_fn(move || if whole { measure(Part::Serialize, &mut piece) } else { piece() });
    // What fails at once is an answer of its own; later there is only the end of the connection to tell it by.
    let first = pieces.next().transpose()?;
    let rest = pieces.map(|piece| piece.map_err(|status| std::io::Error::other(status.message().to_owned())));
    Ok(Body::stream(futures::stream::iter(first.map(Ok).into_iter().chain(rest))))
}

/// One item or row, without separator.
fn write_item(
    resource: &Resource,
    transform: Transform,
    include: Include,
    entry: &Entry,
    out: &mut Gathered,
) -> Result<(), Status> {
    match transform {
        Transform::None => {
            let json = resource.json(entry)?;
            out.small.push(b'{');
            out.share(json.slice(resource.item_offset()..));
        }
        Transform::Table(version) => {
            let row = measure(Part::Transform, || {
                let object = resource.collection.decode(entry.value(), entry.revision())?;
                let columns = table::columns(resource);
                Ok::<_, Status>(table::row(resource, columns, &object, include, version, SystemTime::now().into()))
            })?;
            measure(Part::Serialize, || json::write(&row, &mut out.small));
        }
        Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
            let item = measure(Part::Transform, || {
                let object = resource.collection.decode(entry.value(), entry.revision())?;
                Ok::<_, Status>(partial_item(resource, &object, version))
            })?;
            measure(Part::Serialize, || json::write(&item, &mut out.small));
        }
    }
    Ok(())
}

/// Items of a PartialObjectMetadataList carry their kind, unlike those of typed lists.
fn partial_item(resource: &Resource, object: &Value, version: MetaVersion) -> Value {
    partial::of_object(resource, object, version)
}

/// Kinds whose rows have an order of their own are the exception: their rows are collected.
fn sorted_table(
    resource: &Resource,
    output: Output,
    include: Include,
    page: Page,
    mut head: Vec<u8>,
    tail: &str,
    order: fn(&Value, &Value) -> std::cmp::Ordering,
) -> Result<Body, Status> {
    let Transform::Table(version) = output.transform else { return Ok(Body::full(head)) };
    let mut objects = objects(resource, page)?;
    objects.sort_by(order);
    let columns = table::columns(resource);
    let now = SystemTime::now().into();
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            head.push(b',');
        }
        json::write(&table::row(resource, columns, object, include, version, now), &mut head);
    }
    head.extend_from_slice(tail.as_bytes());
    Ok(Body::full(head))
}

fn objects(resource: &Resource, mut page: Page) -> Result<Vec<Value>, Status> {
    let mut objects = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            objects.push(resource.collection.decode(entry.value(), entry.revision())?);
        }
    }
    Ok(objects)
}

/// The list as one tree, for the encodings that are not streamed.
fn assembled(
    resource: &Resource,
    output: Output,
    include: Include,
    page: Page,
) -> Result<(Value, Option<&'static binnacle_schema::Message>), Status> {
    let mut list = Object::with_capacity(5);
    let metadata = metadata(&page);
    let mut objects = objects(resource, page)?;
    match output.transform {
        Transform::None => {
            list.insert("kind", resource.description.list_kind);
            list.insert("apiVersion", resource.api_version());
            list.insert("metadata", metadata);
            for object in &mut objects {
                resource.from_stored(object);
                let members = object.make_object();
                members.remove("kind");
                members.remove("apiVersion");
            }
            list.insert("items", Value::List(objects));
            let d = resource.description;
            Ok((Value::Object(list), binnacle_kinds::tables::kind(d.group, d.version, d.list_kind)))
        }
        Transform::Table(version) => {
            let columns = table::columns(resource);
            if let Some(order) = columns.order {
                objects.sort_by(order);
            }
            let now = SystemTime::now().into();
            let rows: Vec<_> =
                objects.iter().map(|o| table::row(resource, columns, o, include, version, now)).collect();
            let unfilled = rows.is_empty() && table::has_null_rows(resource);
            let mut table = table::table(version, metadata, Some(columns), rows);
            if unfilled {
                table.make_object().insert("rows", Value::Null);
            }
            Ok((table, partial::message(output.transform)))
        }
        Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
            list.insert("kind", "PartialObjectMetadataList");
            list.insert("apiVersion", version.api_version());
            list.insert("metadata", metadata);
            let items: Vec<_> = objects.iter().map(|o| partial_item(resource, o, version)).collect();
            list.insert("items", if items.is_empty() { Value::Null } else { Value::List(items) });
            Ok((Value::Object(list), partial::message(Transform::PartialMetadataList(version))))
        }
    }
}

/// Protobuf says how long a list is before it says what is in it, so the objects are looked at twice: first for their
/// lengths, then for their bytes. Neither pass holds more than one piece.
fn protobuf(resource: &Arc<Resource>, mut page: Page) -> Result<Body, Status> {
    let version = page.revision.0.to_string();
    let (token, remaining) = (page.continue_token.clone().unwrap_or_default(), page.remaining);
    let mut entries = Vec::new();
    let length = measure(Part::Serialize, || {
        let mut length = 0;
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                length += proto::list_item_len(resource.protobuf(&entry)?.len());
                entries.push(entry);
            }
        }
        Ok::<_, Status>(length)
    })?;
    let meta = proto::ListMeta {
        resource_version: &version,
        continue_token: &token,
        remaining_item_count: remaining.map(|n| n as i64),
    };
    let mut gathered = Gathered::default();
    proto::list_head(resource.api_version(), resource.description.list_kind, meta, length, &mut gathered.small);
    let resource = Arc::clone(resource);
    let mut entries = entries.into_iter();
    let mut done = false;
    let mut piece = move || {
        if done {
            return None;
        }
        loop {
            let Some(entry) = entries.next() else {
                done = true;
                proto::list_tail(&mut gathered.small);
                return Some(Ok(gathered.take()));
            };
            match resource.protobuf(&entry) {
                Ok(message) => {
                    proto::list_item_header(message.len(), &mut gathered.small);
                    gathered.share(message);
                }
                Err(status) => {
                    done = true;
                    return Some(Err(std::io::Error::other(status.message().to_owned())));
                }
            }
            if gathered.is_enough() {
                return Some(Ok(gathered.take()));
            }
        }
    };
    let pieces = std::iter::from_fn(move || measure(Part::Serialize, &mut piece));
    Ok(Body::stream(futures::stream::iter(pieces)))
}
