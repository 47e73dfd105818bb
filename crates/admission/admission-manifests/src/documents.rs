//! Strict decoding of documents: unknown kinds and fields are errors.

use std::sync::{Arc, LazyLock};

use binnacle_meta::{GroupVersion, go_quote};
use binnacle_schema::decode::{self, DecodedObject};
use binnacle_schema::{Field, Limits, Message, MessageRef, Ty, Value, json, yaml};
use binnacle_scheme::Kinds;

/// The API group of webhooks and policies. Besides its kinds, manifests may be `v1` Lists.
const GROUP: &str = "admissionregistration.k8s.io";

/// The maximum nesting of lists.
const MAX_DEPTH: usize = 32;

/// An object of a document and its kind.
pub(crate) struct Object {
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) value: Value,
}

/// The schema of a `v1` List.
static LIST: LazyLock<Message> = LazyLock::new(|| {
    let metadata = Message::new(
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
        vec![
            Field::new("selfLink", Ty::String),
            Field::new("resourceVersion", Ty::String),
            Field::new("continue", Ty::String),
            Field::new("remainingItemCount", Ty::Int64),
        ],
    );
    let fields = vec![
        Field::new("kind", Ty::String),
        Field::new("apiVersion", Ty::String),
        Field::new("metadata", Ty::Message(MessageRef::Shared(Arc::new(metadata)))),
        Field::new("items", Ty::List(Box::new(Ty::RawExtension))),
    ];
    Message::new("io.k8s.apimachinery.pkg.apis.meta.v1.List", fields)
});

/// Returns the objects of a document: the document itself, or the items of a `v1` List.
pub(crate) fn objects(text: &[u8], kinds: &dyn Kinds, scheme: &str) -> Result<Vec<Object>, String> {
    let mut found = Vec::new();
    collect(text, kinds, scheme, MAX_DEPTH, &mut found)?;
    Ok(found)
}

fn collect(text: &[u8], kinds: &dyn Kinds, scheme: &str, depth: usize, found: &mut Vec<Object>) -> Result<(), String> {
    let limits = Limits::default();
    // A document that starts with a brace is decoded as JSON.
    let is_json = text.starts_with(b"{");
    let (api_version, kind) = type_meta(text, is_json, &limits)?;
    let version = GroupVersion::parse(&api_version).filter(|version| is_known(version, &kind));
    let is_list = api_version == "v1" && kind == "List";
    let message = match &version {
        _ if is_list => Some(&*LIST),
        Some(version) => kinds.kind(&version.group, &version.version, &kind),
        None => None,
    };
    let (Some(version), Some(message)) = (version, message) else {
        let (kind, version, scheme) = (go_quote(&kind), go_quote(&api_version), go_quote(scheme));
        return Err(format!("no kind {kind} is registered for version {version} in scheme {scheme}"));
    };
    let decoded = if is_json { decode::json(text, message, &limits) } else { decode::yaml(text, message, &limits) };
    let DecodedObject { value, findings, .. } = decoded.map_err(|error| error.to_string())?;
    if let Some(strict) = findings.strict_error() {
        return Err(strict);
    }
    if !is_list {
        found.push(Object { version: version.version.to_string(), kind, value });
        return Ok(());
    }
    let depth = depth.checked_sub(1).ok_or("lists nest too deep")?;
    for item in value.list_at(&["items"]) {
        let mut text = Vec::new();
        json::write(item, &mut text);
        collect(&text, kinds, scheme, depth, found).map_err(|why| format!("failed to decode list item: {why}"))?;
    }
    Ok(())
}

fn is_known(version: &GroupVersion, kind: &str) -> bool {
    version.group == GROUP || version.group.is_empty() && version.version == "v1" && ["List", "Status"].contains(&kind)
}

/// Returns the API version and kind of a document.
fn type_meta(text: &[u8], is_json: bool, limits: &Limits) -> Result<(String, String), String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let (api_version, kind) = if is_json {
        let meta = json::type_meta(text, limits).map_err(|error| unread(error.to_string()))?;
        (meta.api_version.to_string(), meta.kind.to_string())
    } else {
        let (tree, _) = yaml::parse(text, limits).map_err(|error| error.to_string())?;
        binnacle_config::check_type(&tree).map_err(|error| error.0)?;
        (tree.str_at(&["apiVersion"]).to_owned(), tree.str_at(&["kind"]).to_owned())
    };
    for (name, value) in [("Kind", &kind), ("apiVersion", &api_version)] {
        if value.is_empty() {
            return Err(format!("Object '{name}' is missing in '{}'", String::from_utf8_lossy(text)));
        }
    }
    Ok((api_version, kind))
}
