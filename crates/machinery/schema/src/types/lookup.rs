//! Lookup of a message's fields by name: it scans eight bytes per field instead of the fields themselves.

use super::{Field, Message, Presence, Ty};

/// The cost of a struct, with its fields and with the defaults that it may get.
const STRUCT: usize = 512;

/// The cost of a struct that describes a schema: it gets no defaults, and most of its many fields are absent.
const SCHEMA: usize = 192;

/// The tables for finding and completing fields, built from a message on first use.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// A digest of each field's name, in field order.
    digests: Box<[u64]>,
    /// The fields that are always written, by ascending index.
    pub(crate) always: Box<[u32]>,
    /// The fields that [`crate::nil_empty`] examines, by ascending index.
    pub(crate) nils: Box<[u32]>,
    /// The memory that is charged for a decoded struct.
    pub(crate) cost: usize,
}

impl Lookup {
    pub(crate) fn new(fields: &[Field]) -> Self {
        let always = fields.iter().zip(0u32..);
        let always = always.filter(|(field, _)| matches!(field.presence, Presence::Always | Presence::AlwaysNull));
        Self {
            digests: fields.iter().map(|field| digest(field.name.as_bytes())).collect(),
            always: always.map(|(_, index)| index).collect(),
            nils: nil_fields(fields),
            cost: if fields.iter().any(|field| is_schema(&field.ty)) { SCHEMA } else { STRUCT },
        }
    }

    /// Returns the index of the field with this name, searched from `hint` on.
    #[inline]
    pub(crate) fn find(&self, fields: &[Field], name: &str, hint: usize) -> Option<usize> {
        // Decoded members share the name with their field.
        if fields.get(hint).is_some_and(|field| std::ptr::eq(field.name.as_str(), name)) {
            return Some(hint);
        }
        let digest_of_name = digest(name.as_bytes());
        let n = self.digests.len().min(fields.len());
        let start = if hint < n { hint } else { 0 };
        // Different names may have equal digests, so the names are compared.
        let found = |i: &usize| self.digests[*i] == digest_of_name && fields[*i].name.as_str() == name;
        (start..n).find(found).or_else(|| (0..start).find(found))
    }
}

/// Returns the fields that can be nil and are always written, and those that contain such fields.
fn nil_fields(fields: &[Field]) -> Box<[u32]> {
    let nil = |field: &Field| leads_to_nil(field, &mut Vec::new());
    fields.iter().zip(0..).filter(|(field, _)| nil(field)).map(|(_, index)| index).collect()
}

/// Returns true for a field that is, or contains, one of [`nil_fields`]. `seen` has the messages on the current path,
/// since schemas of schemas contain themselves.
fn leads_to_nil(field: &Field, seen: &mut Vec<*const Message>) -> bool {
    field.presence == Presence::AlwaysNull
        || matches!(field.ty.map_value(), Some(Ty::Bytes))
        || innermost(&field.ty).is_some_and(|message| has_nil(message, seen))
}

fn has_nil(message: &Message, seen: &mut Vec<*const Message>) -> bool {
    if seen.contains(&std::ptr::from_ref(message)) {
        return false;
    }
    seen.push(message);
    message.fields.iter().any(|field| leads_to_nil(field, seen))
}

/// Returns the message of a type, of its elements or of its values.
fn innermost(ty: &Ty) -> Option<&Message> {
    ty.message().or_else(|| ty.element().or_else(|| ty.map_value()).and_then(innermost))
}

/// Returns true for types that only occur in schemas of definitions.
fn is_schema(ty: &Ty) -> bool {
    matches!(ty, Ty::SchemaOrBool(_) | Ty::SchemaOrArray(_) | Ty::SchemaOrStrings(_))
}

/// Mixes the first and the last eight bytes and the length: names of one message rarely agree in all of them.
#[inline]
fn digest(name: &[u8]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes).unwrap_or(0);
    let n = name.len();
    let mixed = if n >= 8 {
        word(&name[..8]) ^ word(&name[n - 8..]).rotate_left(23)
    } else {
        name.iter().fold(0, |word, b| word << 8 | u64::from(*b))
    };
    mixed.wrapping_add((n as u64).wrapping_mul(SPREAD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_fields_by_name() {
        let names = ["a", "ab", "terminationMessagePath", "terminationMessagePolicy", "kind", "", "aaaaaaaaXaaaaaaaa"];
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, Ty::String)).collect();
        let lookup = Lookup::new(&fields);
        for hint in 0..9 {
            for (i, name) in names.iter().enumerate() {
                assert_eq!(lookup.find(&fields, name, hint), Some(i), "{name} from {hint}");
            }
            // The same digest, but another name.
            assert_eq!(lookup.find(&fields, "aaaaaaaaYaaaaaaaa", hint), None);
            assert_eq!(lookup.find(&fields, "Kind", hint), None);
        }
        assert_eq!(Lookup::new(&[]).find(&[], "a", 3), None);
    }
}
