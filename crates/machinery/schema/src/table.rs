//! Short names for the statics that builds generate from field tables; other code does not use them.

use std::borrow::Cow;

use binnacle_meta::Text;

use crate::{Field, ListType, PatchStrategy, Presence, Ty};

/// The facts that few fields have. Plain values, so that the tables list only those that differ from [`PLAIN`].
#[derive(Clone, Copy)]
pub struct Facts {
    pub embedded_in: &'static [u32],
    pub required: bool,
    pub list: List,
    /// Merge, replace, retain keys, and the merge key.
    pub patch: (bool, bool, bool, &'static str),
    pub default: Option<&'static str>,
    pub zero_default: bool,
    pub values: &'static [Text],
    pub constant: &'static str,
}

#[derive(Clone, Copy)]
pub enum List {
    Unset,
    Atomic,
    Granular,
    Set,
    Map(&'static [Text]),
}

pub const PLAIN: Facts = Facts {
    embedded_in: &[],
    required: false,
    list: List::Unset,
    patch: (false, false, false, ""),
    default: None,
    zero_default: false,
    values: &[],
    constant: "",
};

pub const fn t(text: &'static str) -> Text {
    Text::new_static(text)
}

pub const fn field(name: &'static str, tag: u32, ty: Ty, presence: Presence, facts: Facts) -> Field {
    let (merge, replace, retain_keys, merge_key) = facts.patch;
    Field {
        name: t(name),
        tag,
        embedded_in: facts.embedded_in,
        ty,
        presence,
        required: facts.required,
        list_type: match facts.list {
            List::Unset => ListType::Unset,
            List::Atomic => ListType::Atomic,
            List::Granular => ListType::Granular,
            List::Set => ListType::Set,
            List::Map(keys) => ListType::Map(Cow::Borrowed(keys)),
        },
        patch: PatchStrategy { merge, replace, retain_keys, merge_key: t(merge_key) },
        default: match facts.default {
            Some(json) => Some(Cow::Borrowed(json)),
            None => None,
        },
        zero_default: facts.zero_default,
        values: Cow::Borrowed(facts.values),
        constant: facts.constant,
    }
}
