//! The attributes of a request that authorizers decide on.

use binnacle_meta::GroupResource;
use binnacle_request::{RequestInfo, User};

/// The user, verb and object of a request. They are borrowed, since most decisions store none of them.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    pub is_resource_request: bool,
    pub path: &'a str,
    pub api_group: &'a str,
    pub api_version: &'a str,
    pub namespace: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    pub field_selector: &'a str,
    pub label_selector: &'a str,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of a request (unlike those in an access review).
    pub fn of(info: &'a RequestInfo, user: &'a User) -> Self {
        Self {
            user,
            verb: &info.verb,
            is_resource_request: info.is_resource_request,
            path: &info.path,
            api_group: &info.api_group,
            api_version: &info.api_version,
            namespace: &info.namespace,
            resource: &info.resource,
            subresource: &info.subresource,
            name: &info.name,
            field_selector: &info.field_selector,
            label_selector: &info.label_selector,
        }
    }

    /// Returns attributes that are empty except for the user.
    pub fn nothing(user: &'a User) -> Self {
        Self {
            user,
            verb: "",
            is_resource_request: false,
            path: "",
            api_group: "",
            api_version: "",
            namespace: "",
            resource: "",
            subresource: "",
            name: "",
            field_selector: "",
            label_selector: "",
        }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.api_group, self.resource)
    }
}
