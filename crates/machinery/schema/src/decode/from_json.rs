//! Decodes JSON bytes by a schema, without an intermediate tree.

use std::borrow::Cow;

use binnacle_meta::Text;

use super::build::{MapBuilder, SeenFields, Slots, finish_struct, is_kept};
use super::scalar::{self, Scalar};
use super::{DecodeError, DecodeProblems, DecodedObject, EmptyFields};
use crate::findings::{Finding, Findings};
use crate::json::{self, Cursor, InvalidJson, Report, check_size, compacted, free_form, go_utf8, kind_of, read_error};
use crate::limits::Budget;
use crate::path::Path;
use crate::zero::{is_zero_struct, zero_value};
use crate::{Field, Limits, Message, Object, Presence, Ty, Value};

/// Decodes a JSON document.
pub fn json(bytes: &[u8], message: &Message, limits: &Limits) -> Result<DecodedObject, DecodeError> {
    check_size(bytes, limits).map_err(DecodeError::Json)?;
    let text = go_utf8(bytes);
    let mut decoder = Decoder {
        cursor: Cursor::within(&text, Budget::new(limits)),
        problems: DecodeProblems::default(),
        findings: Findings::default(),
        empty_fields: EmptyFields::default(),
        lenient: 0,
        slots: Vec::with_capacity(32),
    };
    let value = decoder
        .root(message, limits.max_depth)
        .and_then(|value| decoder.cursor.end().map(|()| value))
        .map_err(|InvalidJson| DecodeError::Json(read_error(&decoder.cursor, bytes, limits)))?;
    decoder.problems.into_result()?;
    Ok(DecodedObject { value, findings: decoder.findings, empty_fields: decoder.empty_fields })
}

struct Decoder<'a> {
    cursor: Cursor<'a>,
    problems: DecodeProblems,
    findings: Findings,
    empty_fields: EmptyFields,
    /// Greater than zero inside types that use Go's standard decoder, which reports no findings.
    lenient: u32,
    slots: Slots,
}

type PathRef<'p> = Option<&'p Path<'p>>;

impl<'a> Decoder<'a> {
    fn root(&mut self, message: &Message, depth: usize) -> Result<Value, InvalidJson> {
        match self.cursor.peek()? {
            b'{' => self.message(message, None, None, depth).map(Value::Object),
            b'n' => {
                self.cursor.word("null")?;
                Ok(Value::Object(finish_struct(message, &mut self.slots, 0)))
            }
            other => {
                self.cursor.skip(depth)?;
                let name = super::go::qualified_name(message);
                self.problems.saved(|| super::go::type_error(None, kind_of(other), &name));
                Ok(Value::Null)
            }
        }
    }

    fn is_strict(&self) -> bool {
        self.lenient == 0 && !self.findings.is_full()
    }

    /// Decodes a struct at its brace. Like Go, decodes into `before`, the value of an earlier member of the same name.
    fn message(
        &mut self,
        message: &Message,
        before: Option<Object>,
        path: PathRef<'_>,
        depth: usize,
    ) -> Result<Object, InvalidJson> {
        let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
        self.cursor.budget.message(message)?;
        let base = self.slots.len();
        let mut seen = SeenFields::default();
        for (name, value) in before.into_iter().flatten() {
            if let Some((index, _)) = message.field(&name, 0) {
                self.slots.push((index, value));
            }
        }
        let merges = self.slots.len() > base;
        let mut hint = 0;
        let mut more = self.cursor.open(b'}')?;
        while more {
            let name = self.cursor.name()?;
            let Some((index, field)) = message.field(&name, hint) else {
                if self.is_strict() {
                    self.findings.push(Finding::UnknownField(Path::member(path, &name)));
                }
                self.cursor.skip(depth)?;
                more = self.cursor.more(b'}')?;
                continue;
            };
            hint = index + 1;
            let repeated = seen.insert(index);
            if repeated && self.is_strict() {
                self.findings.push(Finding::DuplicateField(Path::member(path, &field.name)));
            }
            let before = if repeated || merges { self.take(base, index) } else { None };
            let omits_zero = field.presence == Presence::OmitZero;
            // Values of simple types are built in their slot: moving them costs as much as reading them.
            match (self.cursor.peek()?, &field.ty) {
                (b'"', Ty::String) => {
                    let text = self.cursor.string()?;
                    if !(omits_zero && text.is_empty()) {
                        self.slots.push((index, Value::Str(Text::new(text))));
                    }
                }
                (b't', Ty::Bool) => {
                    self.cursor.word("true")?;
                    self.slots.push((index, Value::Bool(true)));
                }
                (b'n', ty) => {
                    self.cursor.word("null")?;
                    if let Some(value) = self.null(ty, field.presence, before) {
                        self.keep(index, field, value, None);
                    }
                }
                (b'{', Ty::Message(inner)) => {
                    let here = Path::field(path, message, field);
                    let object = self.message(inner, before.and_then(Value::into_object), Some(&here), depth)?;
                    if !omits_zero || !is_zero_struct(inner, &object) {
                        self.slots.push((index, Value::Object(object)));
                    }
                }
                (first, ty) => {
                    let here = Path::field(path, message, field);
                    let value = self.value(first, ty, before.map(Box::new), Some(&here), depth)?;
                    self.keep(index, field, value, Some(&here));
                }
            }
            more = self.cursor.more(b'}')?;
        }
        Ok(finish_struct(message, &mut self.slots, base))
    }

    /// Puts a value into its slot, unless Go would omit it.
    fn keep(&mut self, index: usize, field: &Field, value: Value, path: PathRef<'_>) {
        if is_kept(field, &value) {
            self.slots.push((index, value));
        } else {
            self.empty_fields.note(field, &value, path);
        }
    }

    /// Takes a field that was decoded before out of its slot.
    fn take(&mut self, base: usize, index: usize) -> Option<Value> {
        let at = self.slots[base..].iter().position(|(met, _)| *met == index)?;
        Some(self.slots.remove(base + at).1)
    }

    /// Decodes `null` for a field: unsets pointers, lists and maps, and changes nothing else.
    fn null(&mut self, ty: &Ty, presence: Presence, before: Option<Value>) -> Option<Value> {
        if matches!(ty, Ty::Duration) && presence != Presence::Optional {
            return Some(scalar::scalar(ty, Scalar::Str(Cow::Borrowed("")), None, &mut self.problems));
        }
        let is_kept = presence != Presence::Optional
            && matches!(ty, Ty::String | Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double | Ty::Message(_));
        before.filter(|_| is_kept)
    }

    /// Decodes a value other than `null`, at its first byte.
    fn value(
        &mut self,
        first: u8,
        ty: &Ty,
        before: Option<Box<Value>>,
        path: PathRef<'_>,
        depth: usize,
    ) -> Result<Value, InvalidJson> {
        match (first, ty) {
            (b'"', Ty::String) => return Ok(Value::Str(Text::new(self.cursor.string()?))),
            (b'{', Ty::Message(message)) => {
                return self
                    .message(message, before.and_then(|before| before.into_object()), path, depth)
                    .map(Value::Object);
            }
            // Types that keep their JSON text.
            (_, Ty::FieldsV1) => return Ok(Value::Raw(compacted(self.cursor.skip(depth)?).into())),
            (b'{' | b'[', Ty::RawExtension) => {
                // Go stores it as raw JSON, whose numbers may have any size.
                let mut report = Report::new(None);
                let start = self.cursor.position();
                let tree = free_form(&mut self.cursor, depth, None, &mut report)?;
                return Ok(json::carried(self.cursor.since(start), tree));
            }
            (b'{' | b'[', Ty::Json) => {
                let mut report = Report::new(None);
                let value = free_form(&mut self.cursor, depth, None, &mut report)?;
                return Ok(match report.overflow {
                    Some(number) => scalar::overflow(&number, &mut self.problems),
                    None => value,
                });
            }
            (_, Ty::Quantity) => {
                let text = self.cursor.skip(depth)?;
                let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
                return Ok(scalar::quantity(inner, &mut self.problems));
            }
            (b'{', Ty::SchemaOrBool(message) | Ty::SchemaOrArray(message) | Ty::SchemaOrStrings(message)) => {
                return self.lenient(|decoder| decoder.message(message, None, path, depth).map(Value::Object));
            }
            (b'[', Ty::SchemaOrArray(message)) => {
                let element = Ty::Message(message.clone());
                let items = self.lenient(|decoder| decoder.list(&element, None, path, depth))?;
                return Ok(if items.is_empty() { Value::Null } else { Value::List(items) });
            }
            (b'[', Ty::SchemaOrStrings(_)) => {
                let items = self.lenient(|decoder| decoder.list(&Ty::String, None, path, depth))?;
                return Ok(if items.is_empty() { Value::Null } else { Value::List(items) });
            }
            (b'[', Ty::SchemaOrBool(_)) => {
                self.cursor.skip(depth)?;
                return Ok(scalar::fatal("boolean or JSON schema expected", &mut self.problems));
            }
            // Go accepts a list of numbers for bytes as well.
            (b'[', Ty::Bytes) => {
                let mut report = Report::new(None);
                let list = free_form(&mut self.cursor, depth, None, &mut report)?;
                return Ok(scalar::byte_list(list.as_list().unwrap_or(&[]), path, &mut self.problems));
            }
            (b'[', _) => {
                if let Some(element) = ty.element() {
                    return self.list(element, before, path, depth).map(Value::List);
                }
            }
            (b'{', _) => {
                if let Some(element) = ty.map_value() {
                    return self
                        .map(element, before.and_then(|before| before.into_object()), path, depth)
                        .map(Value::Object);
                }
            }
            _ => {
                let scalar_value = self.scalar(first)?;
                return Ok(scalar::scalar(ty, scalar_value, path, &mut self.problems));
            }
        }
        self.cursor.skip(depth)?;
        Ok(scalar::mismatch(ty, kind_of(first), path, &mut self.problems))
    }

    fn scalar(&mut self, first: u8) -> Result<Scalar<'a>, InvalidJson> {
        Ok(match first {
            b'"' => Scalar::Str(self.cursor.string()?),
            b't' => {
                self.cursor.word("true")?;
                Scalar::Bool(true)
            }
            b'f' => {
                self.cursor.word("false")?;
                Scalar::Bool(false)
            }
            _ => Scalar::Number(Cow::Borrowed(self.cursor.number()?)),
        })
    }

    fn list(
        &mut self,
        element: &Ty,
        before: Option<Box<Value>>,
        path: PathRef<'_>,
        depth: usize,
    ) -> Result<Vec<Value>, InvalidJson> {
        let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
        let mut before = match before.map(|value| *value) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
        .into_iter();
        let mut items = Vec::new();
        let mut more = self.cursor.open(b']')?;
        while more {
            self.cursor.budget.element()?;
            let before = before.next();
            let item = match self.cursor.peek()? {
                b'n' => {
                    self.cursor.word("null")?;
                    self.zero_struct(element)?;
                    let before = self.null(element, Presence::Always, before);
                    before.unwrap_or_else(|| zero_value(element))
                }
                first => {
                    let here = Path::index(path, items.len());
                    self.value(first, element, before.map(Box::new), Some(&here), depth)?
                }
            };
            items.push(item);
            more = self.cursor.more(b']')?;
        }
        Ok(items)
    }

    /// Counts the empty struct that a `null` element becomes, if the type is a struct.
    fn zero_struct(&mut self, element: &Ty) -> Result<(), InvalidJson> {
        if let Some(message) = element.message() {
            self.cursor.budget.message(message)?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        element: &Ty,
        before: Option<Object>,
        path: PathRef<'_>,
        depth: usize,
    ) -> Result<Object, InvalidJson> {
        let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
        let merges = before.is_some();
        let mut builder = MapBuilder::of(before.unwrap_or_default());
        // In a map that continues an earlier one of the same name, only keys repeated within it count as duplicates.
        let mut own = MapBuilder::default();
        let mut more = self.cursor.open(b'}')?;
        while more {
            let name = self.cursor.name()?;
            self.cursor.budget.member(builder.len())?;
            let repeated = if merges { own.contains(&name) } else { builder.contains(&name) };
            if repeated && self.is_strict() {
                self.findings.push(Finding::DuplicateField(Path::member(path, &name)));
            }
            let value = match self.cursor.peek()? {
                b'n' => {
                    self.cursor.word("null")?;
                    self.zero_struct(element)?;
                    self.null(element, Presence::Always, None).unwrap_or_else(|| zero_value(element))
                }
                first => self.value(first, element, None, Some(&Path::key(path, &name)), depth)?,
            };
            let name = Text::new(name);
            if merges {
                own.push(name.clone(), Value::Null);
            }
            builder.push(name, value);
            more = self.cursor.more(b'}')?;
        }
        Ok(builder.finish())
    }

    /// Decodes like Go's standard decoder, which types with their own decoder use: without findings, and any error ends
    /// decoding.
    fn lenient<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, InvalidJson>) -> Result<T, InvalidJson> {
        self.lenient += 1;
        let saved = self.problems.saved.take();
        let result = read(self);
        self.lenient -= 1;
        let inner = std::mem::replace(&mut self.problems.saved, saved);
        if let Some(text) = inner {
            self.problems.fatal(|| text);
        }
        result
    }
}
