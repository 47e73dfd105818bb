//! Normalizes bytes to the encoder's order: a field in several places, a message in parts, an unsorted map. Other
//! encoders may send these bytes, but they are never stored.

use std::collections::BTreeMap;

use super::error::ProtoError;
use super::index::value_of;
use super::scalars::{self, SchemaAlternative, SchemaOr};
use super::wire::{DELIMITED, Key, Reader, VARINT, put_bytes, put_delimited, put_key, put_varint};
use crate::types::plan::{Group, Rule, wire_type};
use crate::types::{Message, Ty};

/// Returns the same message in the encoder's order.
pub(super) fn normalize(bytes: &[u8], message: &Message, depth: usize) -> Result<Vec<u8>, ProtoError> {
    let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
    let mut parts = Parts { message, depth, fields: Vec::new() };
    parts.fields.resize_with(message.fields.len(), Part::default);
    parts.read(bytes, message.plan().root())?;
    let mut out = Vec::with_capacity(bytes.len());
    parts.write(message.plan().root(), &mut out)?;
    Ok(out)
}

/// The records found for a field.
#[derive(Default)]
enum Part {
    #[default]
    Absent,
    /// Complete records, to be written one after another.
    Records(Vec<u8>),
    /// The contents of one message, from all its records.
    Content(Vec<u8>),
    /// The entries of a map, each with the record of its value.
    Entries(BTreeMap<String, Vec<u8>>),
}

struct Parts<'m> {
    message: &'m Message,
    depth: usize,
    fields: Vec<Part>,
}

impl Parts<'_> {
    fn read(&mut self, bytes: &[u8], group: &Group) -> Result<(), ProtoError> {
        let mut reader = Reader::new(bytes);
        while let Some(key) = reader.key(&self.message.name)? {
            let entry = group.find(key.tag);
            if entry.rule == Rule::Unknown {
                reader.skip(key)?;
                continue;
            }
            let index = usize::from(entry.index);
            let name =
                if entry.rule == Rule::Group { "embedded struct" } else { self.message.fields[index].name.as_str() };
            let range = value_of(key, &mut reader, entry.rule, name)?;
            let (record, value) = (&bytes[key.start..range.end], &bytes[range]);
            if entry.rule == Rule::Group {
                self.read(value, self.message.plan().group(entry.index))?;
            } else {
                let part = std::mem::take(&mut self.fields[index]);
                self.fields[index] = self.add(part, key, record, value, entry.rule, index)?;
            }
        }
        Ok(())
    }

    /// Adds a record to those of its field.
    fn add(
        &self,
        part: Part,
        key: Key,
        record: &[u8],
        value: &[u8],
        rule: Rule,
        index: usize,
    ) -> Result<Part, ProtoError> {
        let ty = &self.message.fields[index].ty;
        Ok(match (rule, part) {
            (Rule::Merged, Part::Content(mut content)) => {
                content.extend_from_slice(value);
                Part::Content(content)
            }
            (Rule::Merged, _) => Part::Content(value.to_vec()),
            (Rule::List, part) => {
                let mut records = part.records();
                put_key(key.tag, DELIMITED, &mut records);
                put_bytes(&self.content(value, ty.element().unwrap_or(ty))?, &mut records);
                Part::Records(records)
            }
            (Rule::Varints | Rule::Fixed64s, part) => {
                let mut records = part.records();
                records.extend_from_slice(record);
                Part::Records(records)
            }
            (Rule::Map, part) => {
                let mut entries = match part {
                    Part::Entries(entries) => entries,
                    _ => BTreeMap::new(),
                };
                let (name, value) = self.entry(value, ty.map_value().unwrap_or(ty))?;
                entries.insert(name, value);
                Part::Entries(entries)
            }
            _ => Part::Records(record.to_vec()),
        })
    }

    /// Returns the key of a map's entry and the last record of its value. Like Go, it ignores their wire types.
    fn entry(&self, bytes: &[u8], values: &Ty) -> Result<(String, Vec<u8>), ProtoError> {
        let (mut name, mut value) = (String::new(), Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some(key) = reader.key("map entry")? {
            match key.tag {
                1 => name = scalars::text(reader.delimited()?).into_owned(),
                2 => {
                    value.clear();
                    put_key(2, wire_type(values), &mut value);
                    match wire_type(values) {
                        DELIMITED => put_bytes(&self.content(reader.delimited()?, values)?, &mut value),
                        VARINT => put_varint(reader.varint()?, &mut value),
                        _ => value.extend_from_slice(&reader.fixed64()?.to_le_bytes()),
                    }
                }
                _ => reader.skip(key)?,
            }
        }
        Ok((name, value))
    }

    /// Returns a value with a length, with its contents in order.
    fn content(&self, bytes: &[u8], ty: &Ty) -> Result<Vec<u8>, ProtoError> {
        match ty {
            Ty::Message(message) => normalize(bytes, message, self.depth),
            Ty::SchemaOrBool(schema) => self.schema_or(bytes, SchemaAlternative::Bool, schema),
            Ty::SchemaOrArray(schema) => self.schema_or(bytes, SchemaAlternative::Array, schema),
            Ty::SchemaOrStrings(schema) => self.schema_or(bytes, SchemaAlternative::Strings, schema),
            // All other types are small, and are read in any order.
            _ => Ok(bytes.to_vec()),
        }
    }

    fn schema_or(&self, bytes: &[u8], or: SchemaAlternative, schema: &Message) -> Result<Vec<u8>, ProtoError> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(bytes, 0..bytes.len(), or)?;
        let mut out = Vec::with_capacity(bytes.len());
        if or == SchemaAlternative::Bool {
            put_key(1, VARINT, &mut out);
            put_varint(allows.into(), &mut out);
        }
        if !records.is_empty() {
            let whole: Vec<u8> = records.into_iter().flat_map(|range| bytes[range].iter().copied()).collect();
            put_key(if or == SchemaAlternative::Bool { 2 } else { 1 }, DELIMITED, &mut out);
            put_bytes(&normalize(&whole, schema, self.depth)?, &mut out);
        }
        for item in list {
            put_key(2, DELIMITED, &mut out);
            match or {
                SchemaAlternative::Strings => put_bytes(&bytes[item], &mut out),
                _ => put_bytes(&normalize(&bytes[item], schema, self.depth)?, &mut out),
            }
        }
        Ok(out)
    }

    fn write(&self, group: &Group, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        for entry in &group.entries {
            if entry.rule == Rule::Group {
                let mut inner = Vec::new();
                self.write(self.message.plan().group(entry.index), &mut inner)?;
                put_key(entry.tag, DELIMITED, out);
                put_bytes(&inner, out);
                continue;
            }
            match &self.fields[usize::from(entry.index)] {
                Part::Absent => {}
                Part::Records(records) => out.extend_from_slice(records),
                Part::Content(content) => {
                    let content = self.content(content, &self.message.fields[usize::from(entry.index)].ty)?;
                    put_key(entry.tag, DELIMITED, out);
                    put_bytes(&content, out);
                }
                Part::Entries(entries) => {
                    for (name, value) in entries {
                        put_key(entry.tag, DELIMITED, out);
                        put_delimited(out, |out| {
                            put_key(1, DELIMITED, out);
                            put_bytes(name.as_bytes(), out);
                            out.extend_from_slice(value);
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

impl Part {
    fn records(self) -> Vec<u8> {
        match self {
            Self::Records(records) => records,
            _ => Vec::new(),
        }
    }
}
