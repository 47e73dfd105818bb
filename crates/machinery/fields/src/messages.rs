//! Handles of messages that are in no field table.

/// Declares messages outside of the API, such as configuration files and JSON in annotations, with a constant for each
/// field.
///
/// ```
/// use binnacle_fields::types::{Int, List, Str};
/// use binnacle_fields::{FieldRef, messages};
/// use binnacle_schema::value;
///
/// messages! {
///     Limits { LIMITS: List<Limit> = "limits" }
///     Limit { TYPE: Str = "type", CACHE_SIZE: Int = "cacheSize" }
/// }
///
/// let file = value!({"limits": [{"type": "Server", "cacheSize": (-1i64)}]});
/// let limits = FieldRef::<Limits>::root(&file);
/// for limit in limits.at(Limits::LIMITS).items() {
///     let error = limit.at(Limit::CACHE_SIZE).invalid("must not be negative");
///     assert_eq!(error.to_string(), "limits[0].cacheSize: Invalid value: -1: must not be negative");
/// }
/// ```
#[macro_export]
macro_rules! messages {
    ($($(#[$attribute:meta])* $visibility:vis $message:ident {
        $($field:ident: $ty:ty = $name:literal),* $(,)?
    })*) => {$(
        $(#[$attribute])*
        $visibility enum $message {}

        impl $message {
            $(
                #[doc = concat!("`", $name, "`")]
                $visibility const $field: $crate::Field<Self, $ty> = $crate::Field::new($name);
            )*
        }
    )*};
}
