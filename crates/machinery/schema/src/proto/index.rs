//! The positions of a message's fields in its bytes: the first of two passes of readers that need the schema's order
//! instead of the bytes' order.

use std::ops::Range;

use super::error::ProtoError;
use super::wire::{DELIMITED, FIXED64, Key, Reader, VARINT};
use crate::TooManyElements;
use crate::types::plan::{Entry, FieldSet, Group, MAX_FIELDS, Rule, wire_type};
use crate::types::{Message, Ty};

/// The reason why a reader in schema order stopped early.
pub(super) enum ReadStop {
    Error(ProtoError),
    /// The bytes are well formed so far, but not in the encoder's order.
    Unordered,
}

impl From<TooManyElements> for ReadStop {
    fn from(error: TooManyElements) -> Self {
        Self::Error(error.into())
    }
}

impl From<ProtoError> for ReadStop {
    fn from(error: ProtoError) -> Self {
        Self::Error(error)
    }
}

/// The position of a field: a single value, or all records of a list or map.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(range: Range<usize>) -> Self {
        // Messages longer than 4 GiB were rejected.
        Self { start: range.start as u32, end: range.end as u32 }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The spans of all messages that are being read; a nested message's spans follow its parent's.
pub(super) struct Index<'a> {
    pub(super) raw: &'a [u8],
    spans: Vec<Span>,
    top: usize,
}

/// The part of the index for one message.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    base: usize,
    /// The fields that are present in the bytes.
    pub(super) found: FieldSet,
}

impl<'a> Index<'a> {
    pub(super) fn new(raw: &'a [u8]) -> Result<Self, ProtoError> {
        match u32::try_from(raw.len()) {
            Ok(_) => Ok(Self { raw, spans: vec![Span::default(); 256], top: 0 }),
            Err(_) => Err(ProtoError::TooLarge),
        }
    }

    /// Records the positions of a message's fields.
    pub(super) fn open(&mut self, range: Range<usize>, message: &Message) -> Result<Frame, ReadStop> {
        let n = message.fields.len();
        if n > MAX_FIELDS {
            return Err(ReadStop::Unordered);
        }
        let mut frame = Frame { base: self.top, found: 0 };
        self.top += n;
        if self.spans.len() < self.top {
            self.spans.resize(2 * self.top, Span::default());
        }
        self.group(range, message, message.plan().root(), &mut frame)?;
        Ok(frame)
    }

    /// Removes a message from the index.
    pub(super) fn close(&mut self, frame: Frame) {
        self.top = frame.base;
    }

    /// Returns the position of a present field.
    #[inline]
    pub(super) fn span(&self, frame: Frame, field: usize) -> Range<usize> {
        self.spans[frame.base + field].range()
    }

    fn group(
        &mut self,
        range: Range<usize>,
        message: &Message,
        group: &Group,
        frame: &mut Frame,
    ) -> Result<(), ReadStop> {
        let mut reader = Reader::of_range(self.raw, range);
        while let Some(key) = reader.key(&message.name)? {
            let entry = group.find(key.tag);
            match entry.rule {
                Rule::Unknown => reader.skip(key)?,
                Rule::Group => {
                    let range = value_of(key, &mut reader, Rule::Group, "embedded struct")?;
                    self.group(range, message, message.plan().group(entry.index), frame)?;
                }
                _ => self.record(key, &mut reader, entry, message, frame)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn record(
        &mut self,
        key: Key,
        reader: &mut Reader<'a>,
        entry: Entry,
        message: &Message,
        frame: &mut Frame,
    ) -> Result<(), ReadStop> {
        let index = usize::from(entry.index);
        let (bit, slot) = ((1 as FieldSet) << index, &mut self.spans[frame.base + index]);
        let value = value_of(key, reader, entry.rule, &message.fields[index].name)?;
        *slot = match entry.rule {
            Rule::List | Rule::Varints | Rule::Fixed64s | Rule::Map => match frame.found & bit != 0 {
                false => Span::new(key.start..value.end),
                true if slot.end as usize == key.start => Span { end: value.end as u32, ..*slot },
                true => return Err(ReadStop::Unordered),
            },
            Rule::OmittedText if value.is_empty() => {
                frame.found &= !bit;
                return Ok(());
            }
            Rule::Merged if frame.found & bit != 0 => return Err(ReadStop::Unordered),
            _ => Span::new(value),
        };
        frame.found |= bit;
        Ok(())
    }

    /// Returns the positions of the key and the value of a map's entry. Like Go, it ignores their wire types.
    #[inline]
    pub(super) fn entry(
        &self,
        range: Range<usize>,
        values: &Ty,
    ) -> Result<(Range<usize>, Option<Range<usize>>), ReadStop> {
        let (mut name, mut value) = (0..0, None);
        let mut reader = Reader::of_range(self.raw, range);
        while let Some(key) = reader.key("map entry")? {
            match key.tag {
                1 => {
                    name = reader.delimited_range()?;
                    // Replacement characters for invalid UTF-8 may change the order of keys.
                    let bytes = &self.raw[name.clone()];
                    if !bytes.is_ascii() && std::str::from_utf8(bytes).is_err() {
                        return Err(ReadStop::Unordered);
                    }
                }
                2 if value.is_some() => return Err(ReadStop::Unordered),
                2 => {
                    value = Some(match wire_type(values) {
                        DELIMITED => reader.delimited_range()?,
                        wire => {
                            let start = reader.position();
                            if wire == FIXED64 {
                                reader.fixed64()?
                            } else {
                                reader.varint()?
                            };
                            start..reader.position()
                        }
                    });
                }
                _ => reader.skip(key)?,
            }
        }
        Ok((name, value))
    }
}

/// Returns the position of a record's value, whose wire type must suit its field.
#[inline(always)]
pub(super) fn value_of(
    key: Key,
    reader: &mut Reader<'_>,
    rule: Rule,
    name: impl AsRef<str>,
) -> Result<Range<usize>, ProtoError> {
    let start = reader.position();
    match (key.wire, rule) {
        (VARINT, Rule::Varint | Rule::Varints) => {
            reader.varint()?;
            Ok(start..reader.position())
        }
        (FIXED64, Rule::Fixed64 | Rule::Fixed64s) => {
            reader.fixed64()?;
            Ok(start..reader.position())
        }
        (_, Rule::Varint | Rule::Fixed64) => Err(ProtoError::wrong_wire_type(key.wire, name.as_ref())),
        (DELIMITED, _) => reader.delimited_range(),
        _ => Err(ProtoError::wrong_wire_type(key.wire, name.as_ref())),
    }
}
