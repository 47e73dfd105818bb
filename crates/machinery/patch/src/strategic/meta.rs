//! The schema for strategic merge patch.

use binnacle_meta::go_quote;
use binnacle_schema::{Field, Message, Presence, Ty};

use super::StrategicError;

/// The type of a merged value.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatchMeta<'s> {
    Struct(&'s Message),
    /// A Go struct without JSON fields, by its name.
    Bare(&'static str),
    /// Any other type, by the name of its kind in Go.
    Kind(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Merge,
    Replace,
    /// Unset: maps are merged, lists replaced.
    Default,
}

impl<'s> PatchMeta<'s> {
    fn of(ty: &'s Ty) -> Self {
        if let Some(message) = ty.message() {
            return Self::Struct(message);
        }
        if ty.element().is_some() {
            return Self::Kind("slice");
        }
        match ty {
            Ty::Map(_) | Ty::StaticMap(_) => Self::Kind("map"),
            Ty::String => Self::Kind("string"),
            Ty::Bool => Self::Kind("bool"),
            Ty::Int32 => Self::Kind("int32"),
            Ty::Int64 => Self::Kind("int64"),
            Ty::Uint32 => Self::Kind("uint32"),
            Ty::Double => Self::Kind("float64"),
            Ty::Bytes => Self::Kind("slice"),
            Ty::RawExtension => Self::Bare("RawExtension"),
            Ty::FieldsV1 => Self::Bare("FieldsV1"),
            Ty::SchemaOrBool(_) => Self::Bare("JSONSchemaPropsOrBool"),
            Ty::SchemaOrArray(_) => Self::Bare("JSONSchemaPropsOrArray"),
            Ty::SchemaOrStrings(_) => Self::Bare("JSONSchemaPropsOrStringArray"),
            _ => Self::Bare("JSON"),
        }
    }

    /// Returns Go's name for the kind of the type.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Struct(_) | Self::Bare(_) => "struct",
            Self::Kind(kind) => kind,
        }
    }

    /// Returns the type, strategy and merge key of a member that is a map.
    pub(super) fn member(self, name: &str) -> Result<(Self, Strategy, &'s str), StrategicError> {
        let field = self.field(name)?;
        Ok((Self::of(&field.ty), strategy(field), &field.patch.merge_key))
    }

    /// Returns the element type, strategy and merge key of a member that is a list.
    pub(super) fn list(self, name: &str) -> Result<(Self, Strategy, &'s str), StrategicError> {
        let field = self.field(name)?;
        let element = match field.ty.element() {
            Some(element) if element.element().is_some() => {
                return Err(StrategicError::other("unexpected slice of slice"));
            }
            Some(element) => Self::of(element),
            // In Go, a pointer to a struct is accepted here, and a struct is not.
            None if field.ty.message().is_some() && field.presence == Presence::Optional => Self::of(&field.ty),
            None => {
                let kind = self.kind();
                return Err(StrategicError::other(format!("expected slice or array type, but got: {kind}")));
            }
        };
        Ok((element, strategy(field), &field.patch.merge_key))
    }

    fn field(self, name: &str) -> Result<&'s Field, StrategicError> {
        let unknown = |of: &str| {
            let name = go_quote(name);
            StrategicError::other(format!("unable to find api field in struct {of} for the json field {name}"))
        };
        match self {
            Self::Struct(message) => {
                // Go's JSON library matches field names in any case.
                let inexact = || message.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
                let of = message.name.rsplit('.').next().unwrap_or_default();
                message.get(name).or_else(inexact).ok_or_else(|| unknown(of))
            }
            Self::Bare(of) => Err(unknown(of)),
            Self::Kind(kind) => Err(StrategicError::other(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }
}

fn strategy(field: &Field) -> Strategy {
    if field.patch.merge {
        Strategy::Merge
    } else if field.patch.replace {
        Strategy::Replace
    } else {
        Strategy::Default
    }
}
