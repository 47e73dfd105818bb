//! The documents in protobuf, inside the envelope with their kind.
//!
//! Fields that are not optional are written even if empty, as in kube-apiserver.

use crate::addresses::ServerAddress;
use crate::documents::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, ApiVersions, GroupDiscovery, GroupDiscoveryList,
    GroupVersionForDiscovery, Metadata, ResourceDiscovery, ResponseKind, SubresourceDiscovery, VersionDiscovery,
};

/// A protobuf message of the API.
pub(crate) trait Message {
    fn write(&self, out: &mut Writer);
}

/// Wraps the message in `k8s\0` and a `runtime.Unknown`.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &impl Message) -> Vec<u8> {
    let mut out = Writer::default();
    out.0.extend_from_slice(b"k8s\0");
    out.nested(1, |type_meta| {
        type_meta.text(1, api_version);
        type_meta.text(2, kind);
    });
    out.message(2, message);
    out.text(3, "");
    out.text(4, "");
    out.0
}

/// A writer of protobuf fields.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn texts<'t>(&mut self, field: u64, texts: impl IntoIterator<Item = &'t &'t str>) {
        for text in texts {
            self.text(field, text);
        }
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn nested(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn message(&mut self, field: u64, message: &impl Message) {
        self.nested(field, |out| message.write(out));
    }

    fn messages<'m, M: Message + 'm>(&mut self, field: u64, messages: impl IntoIterator<Item = &'m M>) {
        for message in messages {
            self.message(field, message);
        }
    }
}

impl Message for ApiVersions {
    fn write(&self, out: &mut Writer) {
        out.texts(1, &self.versions);
        out.messages(2, &self.addresses);
    }
}

impl Message for ServerAddress {
    fn write(&self, out: &mut Writer) {
        out.text(1, &self.client_cidr);
        out.text(2, &self.server_address);
    }
}

impl Message for ApiGroupList<'_> {
    fn write(&self, out: &mut Writer) {
        out.messages(1, &self.groups);
    }
}

impl Message for ApiGroup<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, self.name);
        out.messages(2, &self.versions);
        out.message(3, &self.preferred_version);
    }
}

impl Message for GroupVersionForDiscovery<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, &self.group_version);
        out.text(2, self.version);
    }
}

impl Message for ApiResourceList<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, &self.group_version);
        out.messages(2, &self.resources);
    }
}

impl Message for ApiResource<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, &self.name);
        out.number(2, self.namespaced.into());
        out.text(3, self.kind);
        if let Some(verbs) = &self.verbs {
            out.nested(4, |list| list.texts(1, verbs));
        }
        out.texts(5, &self.short_names);
        out.text(6, self.singular_name);
        out.texts(7, &self.categories);
        out.text(8, self.group);
        out.text(9, self.version);
        out.text(10, &self.storage_version_hash);
    }
}

impl Message for GroupDiscoveryList<'_> {
    fn write(&self, out: &mut Writer) {
        // ListMeta: selfLink, resourceVersion, continue.
        out.nested(1, |list_meta| (1..=3).for_each(|field| list_meta.text(field, "")));
        out.messages(2, &self.items);
    }
}

impl Message for GroupDiscovery<'_> {
    fn write(&self, out: &mut Writer) {
        out.message(1, &self.metadata);
        out.messages(2, &self.versions);
    }
}

impl Message for Metadata<'_> {
    /// ObjectMeta: name, generateName, namespace, selfLink, uid, resourceVersion, generation, creationTimestamp.
    fn write(&self, out: &mut Writer) {
        out.text(1, self.name);
        (2..=6).for_each(|field| out.text(field, ""));
        out.number(7, 0);
        out.text(8, "");
    }
}

impl Message for VersionDiscovery<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, self.version);
        out.messages(2, &self.resources);
        out.text(3, self.freshness);
    }
}

impl Message for ResourceDiscovery<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, self.resource);
        out.message(2, &self.response_kind);
        out.text(3, self.scope);
        out.text(4, self.singular_resource);
        out.texts(5, self.verbs.as_deref().unwrap_or_default());
        out.texts(6, &self.short_names);
        out.texts(7, &self.categories);
        out.messages(8, &self.subresources);
    }
}

impl Message for SubresourceDiscovery<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, self.subresource);
        out.message(2, &self.response_kind);
        out.messages(3, &self.accepted_types);
        out.texts(4, self.verbs.as_deref().unwrap_or_default());
    }
}

impl Message for ResponseKind<'_> {
    fn write(&self, out: &mut Writer) {
        out.text(1, self.group);
        out.text(2, self.version);
        out.text(3, self.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_group_in_envelope() {
        let served = binnacle_resources::default_served();
        let group = ApiGroup::new(served.group("batch").unwrap());
        let expected = [
            b"k8s\0\x0a\x0e\x0a\x02v1\x12\x08APIGroup".as_slice(),
            b"\x12\x29\x0a\x05batch\x12\x0e\x0a\x08batch/v1\x12\x02v1\x1a\x0e\x0a\x08batch/v1\x12\x02v1\x1a\x00\x22\x00",
        ];
        let mut expected = expected.concat();
        // The length of the message: name, one version, preferred version.
        expected[4 + 2 + 14 + 1] = 7 + 2 * 16;
        assert_eq!(envelope("v1", "APIGroup", &group), expected);
    }
}
