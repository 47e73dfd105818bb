//! The messages of `meta.k8s.io`, which every API has beside its own kinds: Status, DeleteOptions, Table,
//! PartialObjectMetadata, lists. Statics that the build makes; nothing happens at start-up.
//!
//! Knows nothing of kinds that are stored.

use binnacle_schema::Message;

/// A message of `meta.k8s.io/v1`: `Status`, `DeleteOptions`, `Table`.
pub fn message(name: &str) -> Option<&'static Message> {
    let wanted = |message: &&Message| message.name.strip_prefix(PACKAGE) == Some(name);
    generated::MESSAGES.iter().copied().find(wanted)
}

/// The static for messages that are always there.
macro_rules! known {
    ($($function:ident $name:literal,)*) => {$(
        #[doc = concat!("The message `", $name, "` of `meta.k8s.io/v1`.")]
        pub fn $function() -> &'static Message {
            static FOUND: std::sync::LazyLock<&'static Message> =
                std::sync::LazyLock::new(|| message($name).expect("the tables of meta.k8s.io have it"));
            &FOUND
        }
    )*};
}

known! {
    delete_options "DeleteOptions",
    object_meta "ObjectMeta",
    partial_object_metadata "PartialObjectMetadata",
    partial_object_metadata_list "PartialObjectMetadataList",
    status "Status",
    table "Table",
}

const PACKAGE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

#[expect(dead_code, reason = "the build writes the kinds of every table, and nothing asks for these by kind")]
mod generated {
    use binnacle_meta::Text;
    use binnacle_schema::table::{Facts, List, PLAIN, field, t};
    use binnacle_schema::{Field, Message, MessageRef, Presence, Ty, Union};

    pub(super) struct KindMessage {
        pub(super) group: &'static str,
        pub(super) version: &'static str,
        pub(super) kind: &'static str,
        pub(super) message: &'static Message,
    }

    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn messages_are_found_by_their_short_name() {
        for (name, field) in [("Status", "reason"), ("DeleteOptions", "preconditions"), ("Table", "rows")] {
            assert!(super::message(name).is_some_and(|message| message.get(field).is_some()), "{name}");
        }
        for (message, field) in [
            (super::delete_options(), "preconditions"),
            (super::object_meta(), "uid"),
            (super::partial_object_metadata(), "metadata"),
            (super::partial_object_metadata_list(), "items"),
            (super::status(), "code"),
            (super::table(), "rows"),
        ] {
            assert!(message.get(field).is_some(), "{}", message.name);
        }
        assert!(super::message("Pod").is_none());
    }
}
