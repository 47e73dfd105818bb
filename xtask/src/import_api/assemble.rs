//! Puts the facts of all sources together, and complains where they contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_tables::{DefaultValue, Field, KindOf, ListType, Message, Patch, Presence, Table, Ty};
use serde_json::Value;

use super::agree;
use super::extensions::{add_openapi, unions, zero};
use super::go::Tree;
use super::go_fields::{GoFields, UNKNOWN, import_path};
use super::openapi::{Definition, Definitions};
use super::protobuf::{Messages, ProtoField, ProtoTy};
use super::special::special;

/// The sources of the tables.
pub(crate) struct Sources<'a> {
    pub(crate) openapi: &'a Definitions,
    pub(crate) protobuf: &'a Messages,
    /// Go sources; without them their facts are taken from the old tables.
    pub(crate) go: Option<Tree>,
    pub(crate) old: &'a [Table],
}

/// The tables that follow from the sources, or all contradictions.
pub(crate) fn assemble(sources: Sources) -> Result<Vec<Table>, Vec<String>> {
    let mut assembler = Assembler {
        openapi: sources.openapi,
        protobuf: sources.protobuf,
        go: sources.go.map(|tree| GoFields { tree, messages: sources.protobuf }),
        old: sources.old.iter().map(|table| (table.package.clone(), table)).collect(),
        tables: BTreeMap::new(),
        waiting: Vec::new(),
        seen: BTreeSet::new(),
        problems: Vec::new(),
    };
    assembler.start();
    while let Some(definition) = assembler.waiting.pop() {
        assembler.message(&definition);
    }
    if assembler.problems.is_empty() { Ok(assembler.finish()) } else { Err(assembler.problems) }
}

struct Assembler<'a> {
    openapi: &'a Definitions,
    protobuf: &'a Messages,
    go: Option<GoFields<'a>>,
    old: BTreeMap<String, &'a Table>,
    tables: BTreeMap<String, Table>,
    /// Definition names still to be done.
    waiting: Vec<String>,
    seen: BTreeSet<String>,
    problems: Vec<String>,
}

impl Assembler<'_> {
    /// Makes the tables, empty, and begins with all definitions and all kinds.
    fn start(&mut self) {
        let definitions = self.openapi.keys().chain(self.protobuf.keys());
        let packages: BTreeSet<String> =
            definitions.filter_map(|name| Some(name.rsplit_once('.')?.0.to_string())).collect();
        let mut claims: BTreeMap<String, Vec<KindOf>> = BTreeMap::new();
        for package in &packages {
            let known = match self.package_facts(package, &mut claims) {
                Ok(known) => known,
                Err(problem) => {
                    self.problems.push(format!("{package}: {problem}"));
                    continue;
                }
            };
            self.tables.insert(package.clone(), known);
        }
        let roots: Vec<String> = claims.keys().chain(self.openapi.keys()).cloned().collect();
        for (definition, kinds) in claims {
            let Some((package, name)) = definition.rsplit_once('.') else { continue };
            if let Some(table) = self.tables.get_mut(package) {
                table.messages.push(Message {
                    name: name.into(),
                    kinds,
                    atomic: false,
                    unions: Vec::new(),
                    fields: Vec::new(),
                });
            }
        }
        for definition in roots {
            self.want(&definition);
        }
    }

    /// The head of a package's table; the kinds that it registers go to `claims`.
    fn package_facts(&mut self, package: &str, claims: &mut BTreeMap<String, Vec<KindOf>>) -> Result<Table, String> {
        let mut table = Table { package: package.into(), api_version: None, options: false, messages: Vec::new() };
        let mut claim = |definition: String, kind: KindOf| {
            let kinds = claims.entry(definition).or_default();
            if !kinds.contains(&kind) {
                kinds.push(kind);
                kinds.sort();
            }
        };
        if let Some(go) = &mut self.go {
            if let Some(source) = import_path(package).map(|path| go.tree.package(&path)).transpose()?.flatten() {
                table.api_version = source.api_version();
                table.options = source.options || !source.everywhere.is_empty();
                for name in &source.kinds {
                    let definition = go.definition_of(package, &source, name)?;
                    let own = definition.rsplit_once('.').is_some_and(|(owner, _)| owner == package);
                    let api_version = table.api_version.clone().ok_or("kinds without an API version")?;
                    claim(definition, if own { KindOf::Own } else { KindOf::Other(api_version) });
                }
                for name in &source.unversioned {
                    claim(format!("{package}.{name}"), KindOf::Other("v1".into()));
                }
                for name in &source.everywhere {
                    claim(format!("{package}.{name}"), KindOf::Every);
                }
                return Ok(table);
            }
        } else if let Some(old) = self.old.get(package) {
            table.api_version = old.api_version.clone();
            table.options = old.options;
            for message in &old.messages {
                for kind in &message.kinds {
                    claim(format!("{package}.{}", message.name), kind.clone());
                }
            }
        }
        // New definitions take their kinds from the documents.
        for (name, definition) in self.openapi.iter() {
            if name.rsplit_once('.').is_none_or(|(owner, _)| owner != package) {
                continue;
            }
            if let [(api_version, _)] = definition.kinds.as_slice()
                && table.api_version.is_none()
            {
                table.api_version = Some(api_version.clone());
                table.options = true;
            }
            for (api_version, _) in &definition.kinds {
                if definition.kinds.len() > 2 {
                    claim(name.clone(), KindOf::Every);
                } else if table.api_version.as_ref() == Some(api_version) {
                    claim(name.clone(), KindOf::Own);
                } else {
                    claim(name.clone(), KindOf::Other(api_version.clone()));
                }
            }
        }
        Ok(table)
    }

    fn want(&mut self, definition: &str) {
        if special(definition).is_none() && self.seen.insert(definition.into()) {
            self.waiting.push(definition.into());
        }
    }

    fn message(&mut self, name: &str) {
        let Some((package, short)) = name.rsplit_once('.') else {
            return self.problems.push(format!("{name} is in no package"));
        };
        let mut fields = match self.fields(name) {
            Ok(fields) => fields,
            Err(problem) => return self.problems.push(format!("{name}: {problem}")),
        };
        let definition = self.openapi.get(name);
        match definition {
            Some(definition) => self.overlay(name, definition, &mut fields),
            None => self.carry_over(package, short, &mut fields),
        }
        self.check_protobuf(name, &fields);
        for field in &fields {
            if let Some(message) = field.ty.message() {
                self.want(message);
            }
        }
        let (atomic, unions) = match (definition, self.old_message(package, short)) {
            (Some(definition), _) => {
                (definition.schema["x-kubernetes-map-type"] == "atomic", unions(&definition.schema))
            }
            (None, Some(old)) => (old.atomic, old.unions.clone()),
            (None, None) => (false, Vec::new()),
        };
        let Some(table) = self.tables.get_mut(package) else {
            return self.problems.push(format!("{name}: no source has the package {package}"));
        };
        match table.messages.iter_mut().find(|message| message.name == short) {
            Some(message) => (message.fields, message.atomic, message.unions) = (fields, atomic, unions),
            None => {
                table.messages.push(Message { name: short.into(), kinds: Vec::new(), atomic, unions, fields });
            }
        }
        if let Some(definition) = definition {
            self.check_kinds(name, short, definition);
        }
    }

    /// The fields with Go's facts.
    fn fields(&mut self, name: &str) -> Result<Vec<Field>, String> {
        if let Some(go) = &mut self.go {
            return go.fields(name)?.ok_or("the Go sources do not have it".into());
        }
        let old = name.rsplit_once('.').and_then(|(package, short)| self.old_message(package, short));
        let mut fields: Vec<Field> = old.map(|message| message.fields.clone()).unwrap_or_default();
        let Some(definition) = self.openapi.get(name) else {
            return if old.is_some() { Ok(fields) } else { Err("neither OpenAPI nor the old table has it".into()) };
        };
        fields.retain(|field| definition.property(&field.name).is_some());
        for (property, schema) in definition.properties().into_iter().flatten() {
            let proto = self.find_proto(name, property, definition, 0);
            if let Some(field) = fields.iter_mut().find(|field| field.name == *property) {
                // A number is looked for again where the old one is not that of the field any more.
                let agrees = agree::with_openapi(&field.ty, schema).is_ok()
                    && self
                        .proto_at(name, &field.embedded_in, field.tag)
                        .is_none_or(|known| agree::with_protobuf(&field.ty, &known.ty, self.protobuf).is_ok());
                if !agrees {
                    let ty = proto.as_ref().map(|(_, field)| &field.ty);
                    field.ty = agree::derive(schema, ty, self.protobuf).map_err(|e| format!("{property}: {e}"))?;
                }
                continue;
            }
            let new = self.new_field(property, schema, definition, proto).map_err(|e| format!("{property}: {e}"))?;
            // Go structs mostly grow in the order of their numbers.
            let at = fields
                .iter()
                .rposition(|field| field.embedded_in == new.embedded_in && field.tag < new.tag)
                .map_or(fields.len(), |before| before + 1);
            fields.insert(at, new);
        }
        if old.is_none() {
            in_declared_order(&mut fields, &definition.required());
        }
        Ok(fields)
    }

    /// A field that no table has yet and whose Go declaration is not at hand.
    fn new_field(
        &self,
        name: &str,
        schema: &Value,
        definition: &Definition,
        proto: Option<(Vec<u32>, ProtoField)>,
    ) -> Result<Field, String> {
        let ty = agree::derive(schema, proto.as_ref().map(|(_, field)| &field.ty), self.protobuf)?;
        let required = definition.required().contains(&name);
        let default = schema.get("default");
        let container = matches!(ty, Ty::List(_) | Ty::WrappedList(_) | Ty::Map(_) | Ty::Bytes);
        let presence = match default {
            // `TypeMeta`.
            _ if proto.is_none() && ["kind", "apiVersion"].contains(&name) => Presence::OmitZero,
            _ if container && required => Presence::AlwaysNull,
            _ if container => Presence::OmitZero,
            Some(default) if *default == zero(&ty) => Presence::Always,
            _ if required => Presence::Always,
            _ => Presence::Optional,
        };
        let (embedded_in, tag) = proto.map_or((Vec::new(), 0), |(path, field)| (path, field.number));
        Ok(Field {
            name: name.into(),
            tag,
            embedded_in,
            ty,
            presence,
            required,
            list_type: ListType::Unset,
            patch: Patch::default(),
            default: DefaultValue::None,
            values: Vec::new(),
            go_type: String::new(),
        })
    }

    /// The protobuf field of a property: of that name, or within a message that OpenAPI shows flattened.
    fn find_proto(
        &self,
        message: &str,
        property: &str,
        definition: &Definition,
        depth: usize,
    ) -> Option<(Vec<u32>, ProtoField)> {
        let fields = self.protobuf.get(message)?;
        let named = fields
            .iter()
            .find(|field| field.name == property)
            .or_else(|| fields.iter().find(|field| same_name(property, &field.name)));
        if let Some(field) = named {
            return Some((Vec::new(), field.clone()));
        }
        fields.iter().filter(|field| definition.property(&field.name).is_none() && depth < 4).find_map(|field| {
            let ProtoTy::Message(inner) = &field.ty else { return None };
            let (mut path, found) = self.find_proto(inner, property, definition, depth + 1)?;
            path.insert(0, field.number);
            Some((path, found))
        })
    }

    fn proto_at(&self, message: &str, embedded_in: &[u32], tag: u32) -> Option<&ProtoField> {
        let mut fields = self.protobuf.get(message)?;
        for outer in embedded_in {
            let ProtoTy::Message(inner) = &fields.iter().find(|field| field.number == *outer)?.ty else { return None };
            fields = self.protobuf.get(inner)?;
        }
        fields.iter().find(|field| field.number == tag)
    }

    /// Keeps OpenAPI's facts of a message that no document shows any more: a server that emulates an older release may
    /// still serve it.
    fn carry_over(&self, package: &str, message: &str, fields: &mut [Field]) {
        let Some(old) = self.old_message(package, message) else { return };
        for field in fields {
            let Some(old) = old.fields.iter().find(|old| old.name == field.name && old.ty == field.ty) else {
                continue;
            };
            let Field { required, list_type, patch, default, .. } = old.clone();
            *field = Field { required, list_type, patch, default, ..field.clone() };
        }
    }

    fn old_message(&self, package: &str, message: &str) -> Option<&Message> {
        self.old.get(package)?.messages.iter().find(|old| old.name == message)
    }

    /// Adds OpenAPI's facts to the fields and compares the rest with it.
    fn overlay(&mut self, name: &str, definition: &Definition, fields: &mut [Field]) {
        let required = definition.required();
        for field in fields.iter_mut() {
            let Some(schema) = definition.property(&field.name) else {
                self.problems.push(format!("{name}.{}: absent from OpenAPI", field.name));
                continue;
            };
            let result = agree::with_openapi(&field.ty, schema).and_then(|()| add_openapi(field, schema, &required));
            if let Err(problem) = result {
                self.problems.push(format!("{name}.{}: {problem}", field.name));
            }
        }
        for property in definition.properties().into_iter().flat_map(|properties| properties.keys()) {
            if !fields.iter().any(|field| field.name == *property) {
                self.problems.push(format!("{name}.{property}: only in OpenAPI"));
            }
        }
        let in_order: Vec<&str> =
            fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        if in_order != required {
            self.problems.push(format!("{name}: required is {required:?} in OpenAPI, {in_order:?} in field order"));
        }
    }

    /// Every number leads to a protobuf field of that type, and every protobuf field is reached.
    fn check_protobuf(&mut self, name: &str, fields: &[Field]) {
        if !self.protobuf.contains_key(name) {
            if let Some(field) = fields.iter().find(|field| field.tag != 0) {
                self.problems.push(format!("{name}.{}: has a number, but protobuf has no such message", field.name));
            }
            return;
        }
        let mut reached: BTreeSet<Vec<u32>> = BTreeSet::new();
        for field in fields {
            let path = || [&field.embedded_in[..], &[field.tag]].concat();
            match self.proto_at(name, &field.embedded_in, field.tag) {
                Some(proto) => {
                    let problem = if same_name(&field.name, &proto.name) {
                        agree::with_protobuf(&field.ty, &proto.ty, self.protobuf).err()
                    } else {
                        Some(format!("its number is that of {} in protobuf", proto.name))
                    };
                    if let Some(problem) = problem {
                        self.problems.push(format!("{name}.{}: {problem}", field.name));
                    }
                    if !reached.insert(path()) {
                        self.problems.push(format!("{name}.{}: another field has its number", field.name));
                    }
                }
                None if field.tag == 0 && ["kind", "apiVersion"].contains(&field.name.as_str()) => {}
                None if field.tag == 0 && self.is_unknown(name, &field.name) => {}
                None => self.problems.push(format!("{name}.{}: absent from protobuf", field.name)),
            }
        }
        let mut unreached = Vec::new();
        self.unreached(name, &mut Vec::new(), &reached, &mut unreached);
        for field in unreached {
            self.problems.push(format!("{name}: {field} is only in protobuf"));
        }
    }

    fn is_unknown(&self, message: &str, field: &str) -> bool {
        let is_unknown = |proto: &ProtoField| proto.name == field && proto.ty == ProtoTy::Message(UNKNOWN.into());
        self.protobuf.get(message).is_some_and(|fields| fields.iter().any(is_unknown))
    }

    fn unreached(&self, message: &str, path: &mut Vec<u32>, reached: &BTreeSet<Vec<u32>>, found: &mut Vec<String>) {
        for field in self.protobuf.get(message).into_iter().flatten() {
            path.push(field.number);
            if !reached.contains(path) {
                match &field.ty {
                    ProtoTy::Message(inner) if reached.iter().any(|other| other.starts_with(path)) => {
                        self.unreached(inner, path, reached, found);
                    }
                    ProtoTy::Message(name) if name == UNKNOWN => {}
                    _ => found.push(field.name.clone()),
                }
            }
            path.pop();
        }
    }

    /// Checks that the kinds of OpenAPI are claimed.
    fn check_kinds(&mut self, name: &str, short: &str, definition: &Definition) {
        let Some((package, _)) = name.rsplit_once('.') else { return };
        let Some(table) = self.tables.get(package) else { return };
        let claims = table.messages.iter().find(|message| message.name == short).map(|message| &message.kinds[..]);
        for (api_version, kind) in &definition.kinds {
            let claimed = claims.unwrap_or_default().iter().any(|claim| match claim {
                KindOf::Own => table.api_version.as_ref() == Some(api_version),
                KindOf::Other(other) => other == api_version,
                KindOf::Every => true,
            });
            if !claimed || kind != short {
                self.problems.push(format!("{name}: is {api_version} {kind} in OpenAPI, but is not registered so"));
            }
        }
    }

    fn finish(self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.tables.into_values().filter(|table| !table.messages.is_empty()).collect();
        for table in &mut tables {
            table.messages.sort_by(|a, b| a.name.cmp(&b.name));
        }
        tables
    }
}

/// Brings the fields of a new message into an order that Go may have: that of the numbers, `kind` before `apiVersion`,
/// with the required ones as OpenAPI lists them, which is their order in Go.
fn in_declared_order(fields: &mut [Field], required: &[&str]) {
    fields.sort_by_key(|field| {
        let path = [&field.embedded_in[..], &[field.tag]].concat();
        (path, field.name != "kind", field.name != "apiVersion")
    });
    let places: Vec<usize> = (0..fields.len()).filter(|i| fields[*i].required).collect();
    let mut in_order: Vec<Field> = places.iter().map(|i| fields[*i].clone()).collect();
    in_order.sort_by_key(|field| required.iter().position(|name| *name == field.name));
    for (place, field) in places.into_iter().zip(in_order) {
        fields[place] = field;
    }
}

/// JSON and protobuf names may differ in case, `$ref` and `x-kubernetes-...` also in characters that protobuf names
/// cannot have.
fn same_name(json: &str, proto: &str) -> bool {
    let plain = |name: &str| name.replace(['-', '$', '_'], "").to_ascii_lowercase();
    plain(json) == plain(proto)
}

#[cfg(test)]
mod tests;
