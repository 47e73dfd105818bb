//! Marker types of fields, and the values that rules may write into them.

use binnacle_meta::{ErrorValue, Text};
use binnacle_schema::Value;

pub use crate::Field;

/// A structure of the API. Its marker has a constant for each of its fields.
pub trait Message {
    /// The name of its OpenAPI definition, `io.k8s.api.apps.v1.DeploymentSpec`.
    const DEFINITION: &'static str;
}

/// A message with the metadata of an object.
pub trait Kind: Message + Sized {
    const METADATA: Field<Self, crate::meta::v1::ObjectMeta>;
}

/// A text.
pub enum Str {}
pub enum Bool {}
/// An integer of 32 or 64 bits.
pub enum Int {}
pub enum Double {}
/// Base64 in JSON.
pub enum Bytes {}
/// A time of second or microsecond precision, in RFC 3339.
pub enum Time {}
pub enum Duration {}
pub enum Quantity {}
pub enum IntOrString {}
/// Arbitrary JSON.
pub enum Json {}
pub struct List<T>(T);
/// A map with text keys.
pub struct Map<T>(T);
/// A schema or the alternative: a boolean, a list of schemas or a list of strings.
pub struct SchemaOr<T>(T);

/// A type of fields.
pub trait FieldType {
    /// Returns an absent value in the format of errors: Go's zero value, or `null` for pointers.
    fn absent() -> ErrorValue {
        ErrorValue::raw("null")
    }
}

impl FieldType for Str {
    fn absent() -> ErrorValue {
        ErrorValue::from("")
    }
}

impl FieldType for Int {
    fn absent() -> ErrorValue {
        ErrorValue::from(0i64)
    }
}

impl FieldType for Bool {
    fn absent() -> ErrorValue {
        ErrorValue::from(false)
    }
}

macro_rules! field_types {
    ($($ty:ty),*) => {$(
        impl FieldType for $ty {}
    )*};
}

field_types!(Double, Bytes, Time, Duration, Quantity, IntOrString, Json);

impl<T> FieldType for List<T> {}

impl<T> FieldType for Map<T> {}

impl<T> FieldType for SchemaOr<T> {}

impl<M: Message> FieldType for M {}

/// A type that contains messages of type `M`: the message itself, or a list or map of it.
pub trait Contains<M> {
    /// True for lists and maps.
    const REPEATED: bool;
}

impl<M: Message> Contains<M> for M {
    const REPEATED: bool = false;
}

impl<M: Message> Contains<M> for List<M> {
    const REPEATED: bool = true;
}

impl<M: Message> Contains<M> for Map<M> {
    const REPEATED: bool = true;
}

/// A type whose values are texts in JSON.
pub trait TextType {}

/// A value that may be written into a field of type `T`.
pub trait Literal<T>: Into<Value> {}

/// Values from other sources.
impl<T> Literal<T> for Value {}

macro_rules! literals {
    ($($ty:ty: $($literal:ty),*;)*) => {$($(
        impl Literal<$ty> for $literal {}
    )*)*};
}

literals! {
    Str: &str, String, Text;
    Time: &str, String, Text;
    Duration: &str, String, Text;
    Quantity: &str, String, Text;
    Bytes: &str, String, Text;
    Bool: bool;
    Int: i64;
    IntOrString: i64, &str, String, Text;
}

impl<T> Literal<List<T>> for Vec<Value> {}
impl Literal<List<Str>> for Vec<Text> {}

impl TextType for Str {}
impl TextType for Time {}
impl TextType for Duration {}
impl TextType for Quantity {}
impl TextType for Bytes {}
