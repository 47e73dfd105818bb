//! Formatting of tables.

use std::fmt::Write;

use crate::types::{DefaultValue, Field, KindOf, ListType, Message, Presence, Table, Ty, stem};

/// Formats a table. Messages of other packages have their table's stem as prefix.
pub fn write(table: &Table) -> String {
    let mut out = String::from("# Written by `cargo xtask import-api`; the format is described in ../README.md.\n");
    out.push_str(&format!("package {}\n", table.package));
    if let Some(api_version) = &table.api_version {
        let options = if table.options { " options" } else { "" };
        out.push_str(&format!("api-version {api_version}{options}\n"));
    }
    for message in &table.messages {
        out.push('\n');
        out.push_str(&head(message));
        for union in &message.unions {
            let fields: Vec<_> = union.fields.iter().map(|(field, value)| format!("{field}:{value}")).collect();
            out.push_str(&format!("  union {}={}\n", union.discriminator, fields.join(",")));
        }
        for field in &message.fields {
            out.push_str(&line(field, &table.package));
            out.push('\n');
        }
    }
    out
}

fn head(message: &Message) -> String {
    let kinds: String = message
        .kinds
        .iter()
        .map(|kind| match kind {
            KindOf::Own => " kind".into(),
            KindOf::Other(api_version) => format!(" kind={api_version}"),
            KindOf::Every => " kind=*".into(),
        })
        .collect();
    let atomic = if message.atomic { " atomic" } else { "" };
    format!("message {}{kinds}{atomic}\n", message.name)
}

/// Formats the line of one field in the table of `package`.
pub fn line(field: &Field, package: &str) -> String {
    let mut tag = String::new();
    for outer in &field.embedded_in {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{outer}/");
    }
    let _ = write!(tag, "{}", field.tag);
    let presence = match field.presence {
        Presence::OmitZero => "omit",
        Presence::Optional => "optional",
        Presence::Always => "always",
        Presence::AlwaysNull => "null",
    };
    let mut out = format!("  {:<32} {tag:>5} {:<28} {presence:<8}", field.name, ty(&field.ty, package));
    if field.required {
        out.push_str(" required");
    }
    match &field.list_type {
        ListType::Unset => {}
        ListType::Atomic => out.push_str(" list=atomic"),
        ListType::Granular => out.push_str(" list=granular"),
        ListType::Set => out.push_str(" list=set"),
        ListType::Map(keys) => out.push_str(&format!(" list=map:{}", keys.join(","))),
    }
    let strategies: Vec<_> =
        [(field.patch.merge, "merge"), (field.patch.replace, "replace"), (field.patch.retain_keys, "retainKeys")]
            .into_iter()
            .filter_map(|(set, name)| set.then_some(name))
            .collect();
    if !strategies.is_empty() || !field.patch.merge_key.is_empty() {
        out.push_str(&format!(" patch={}", strategies.join(",")));
        if !field.patch.merge_key.is_empty() {
            out.push_str(&format!(":{}", field.patch.merge_key));
        }
    }
    if !field.go_type.is_empty() {
        out.push_str(&format!(" go={}", field.go_type));
    }
    match &field.default {
        DefaultValue::None => {}
        DefaultValue::Zero => out.push_str(" default=zero"),
        DefaultValue::Value(json) => out.push_str(&format!(" default={json}")),
    }
    if !field.values.is_empty() {
        out.push_str(&format!(" enum={}", field.values.join("|")));
    }
    out.truncate(out.trim_end().len());
    out
}

fn ty(of: &Ty, package: &str) -> String {
    match of {
        Ty::String => "string".into(),
        Ty::Bool => "bool".into(),
        Ty::Int32 => "int32".into(),
        Ty::Int64 => "int64".into(),
        Ty::Uint32 => "uint32".into(),
        Ty::Double => "double".into(),
        Ty::Bytes => "bytes".into(),
        Ty::Time => "time".into(),
        Ty::MicroTime => "microtime".into(),
        Ty::Duration => "duration".into(),
        Ty::Quantity => "quantity".into(),
        Ty::IntOrString => "int-or-string".into(),
        Ty::RawExtension => "raw-extension".into(),
        Ty::Json => "json".into(),
        Ty::FieldsV1 => "fields-v1".into(),
        Ty::SchemaOrBool(name) => format!("schema-or-bool({})", reference(name, package)),
        Ty::SchemaOrArray(name) => format!("schema-or-array({})", reference(name, package)),
        Ty::SchemaOrStrings(name) => format!("schema-or-strings({})", reference(name, package)),
        Ty::Message(name) => reference(name, package),
        Ty::List(inner) => format!("[]{}", ty(inner, package)),
        Ty::WrappedList(inner) => format!("wrapped[]{}", ty(inner, package)),
        Ty::Map(inner) => format!("map:{}", ty(inner, package)),
    }
}

/// Returns `PodSpec` within its own package, `core.v1.PodSpec` in others.
fn reference(name: &str, package: &str) -> String {
    match name.rsplit_once('.') {
        Some((owner, short)) if owner == package => short.into(),
        Some((owner, short)) => format!("{}.{short}", stem(owner)),
        None => name.into(),
    }
}
