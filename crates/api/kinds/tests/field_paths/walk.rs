//! Follows paths through the messages of the field tables.

use std::collections::{HashMap, HashSet};

use binnacle_kinds::tables;
use binnacle_schema::{Message, Ty};

use crate::source::{Path, Step};

/// A position in a tree, as a type.
#[derive(Clone, Copy)]
enum FieldPosition {
    Message(&'static Message),
    Type(&'static Ty),
}

/// The messages in objects of one API group, or of all groups.
pub(crate) struct Messages(Vec<&'static Message>);

impl Messages {
    pub(crate) fn all() -> Self {
        Self(tables::messages().collect())
    }

    /// Returns the messages of all versions of a group, named like its package (`apps`), and those that they refer to.
    /// `None` if there is no such group.
    pub(crate) fn of_group(group: &str) -> Option<Self> {
        let package = format!(".{group}.v");
        let mut found: Vec<_> = tables::messages().filter(|message| message.name.contains(&package)).collect();
        let mut seen: HashSet<&str> = found.iter().map(|message| message.name.as_str()).collect();
        let mut next = 0;
        while let Some(message) = found.get(next) {
            next += 1;
            let inner = message.fields.iter().filter_map(|field| referred(&field.ty));
            found.extend(inner.filter(|message| seen.insert(message.name.as_str())).collect::<Vec<_>>());
        }
        (!found.is_empty()).then_some(Self(found))
    }

    /// Returns true if the path leads through some message.
    pub(crate) fn resolves(&self, path: &Path) -> bool {
        let mut places: Vec<FieldPosition> = self.0.iter().copied().map(FieldPosition::Message).collect();
        for step in &path.0 {
            let mut next = HashMap::new();
            for place in places {
                for ty in follow(place, step) {
                    next.insert(std::ptr::from_ref(ty), ty);
                }
            }
            places = next.into_values().map(FieldPosition::Type).collect();
        }
        !places.is_empty()
    }
}

/// Returns the message that a type, or its elements, refer to.
fn referred(ty: &'static Ty) -> Option<&'static Message> {
    match ty {
        Ty::Message(message)
        | Ty::SchemaOrBool(message)
        | Ty::SchemaOrArray(message)
        | Ty::SchemaOrStrings(message) => Some(message),
        _ => ty.element().or(ty.map_value()).and_then(referred),
    }
}

/// Returns the types that a step may lead to.
fn follow(place: FieldPosition, step: &Step) -> Vec<&'static Ty> {
    let ty = match place {
        FieldPosition::Message(message) => return members(message, step),
        FieldPosition::Type(ty) => ty,
    };
    match (ty, step) {
        // Objects without a schema may have any members.
        (Ty::Json | Ty::RawExtension | Ty::FieldsV1, _) => vec![ty],
        (
            Ty::Message(message)
            | Ty::SchemaOrBool(message)
            | Ty::SchemaOrArray(message)
            | Ty::SchemaOrStrings(message),
            _,
        ) => members(message, step),
        (_, Step::Name(_)) => ty.map_value().into_iter().collect(),
        (_, Step::Any | Step::Element) => ty.map_value().or(ty.element()).into_iter().collect(),
    }
}

fn members(message: &'static Message, step: &Step) -> Vec<&'static Ty> {
    match step {
        Step::Name(name) => message.get(name).map(|field| &field.ty).into_iter().collect(),
        Step::Any => message.fields.iter().map(|field| &field.ty).collect(),
        Step::Element => Vec::new(),
    }
}

#[test]
fn resolves_only_paths_in_field_tables() {
    let name = |name: &str| Step::Name(name.to_owned());
    let spec = |rest: &[Step]| Path([&[name("spec")], rest].concat());
    let (apps, all) = (Messages::of_group("apps").unwrap(), Messages::all());
    let (template, containers) = (name("template"), name("containers"));
    for (path, in_apps, anywhere) in [
        (spec(&[name("replicas")]), true, true),
        (spec(&[name("replica")]), false, false),
        (spec(&[name("schedule")]), false, true),
        (spec(&[template.clone(), name("spec"), containers.clone(), Step::Element, name("image")]), true, true),
        (spec(&[template.clone(), name("spec"), containers.clone(), name("image")]), false, false),
        (spec(&[template.clone(), name("spec"), Step::Any, Step::Any, name("image")]), true, true),
        (spec(&[template.clone(), Step::Element]), false, false),
        (Path(vec![name("metadata"), name("labels"), name("whatever")]), true, true),
        (Path(vec![name("metadata"), name("labels"), name("whatever"), name("more")]), false, false),
        (Path(vec![name("parameters"), name("anything"), name("at"), name("all")]), false, true),
        (
            Path(vec![name("openAPIV3Schema"), name("items"), name("properties"), Step::Element, name("type")]),
            false,
            true,
        ),
    ] {
        assert_eq!((apps.resolves(&path), all.resolves(&path)), (in_apps, anywhere), "{path}");
    }
    assert!(Messages::of_group("app").is_none());
}
