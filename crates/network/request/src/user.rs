//! The caller of a request.

use std::collections::BTreeMap;

use binnacle_meta::Text;

/// An authenticated or anonymous user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: Text,
    pub uid: Text,
    pub groups: Vec<Text>,
    pub extra: BTreeMap<Text, Vec<Text>>,
}

impl User {
    /// The name of users without credentials.
    pub const ANONYMOUS: &str = "system:anonymous";
    /// The group of users without credentials.
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    /// The group of all users with accepted credentials.
    pub const AUTHENTICATED: &str = "system:authenticated";
    /// The group that bypasses all authorizers.
    pub const MASTERS: &str = "system:masters";
    /// The user of the server's own controllers.
    pub const APISERVER: &str = "system:apiserver";

    pub fn new(name: impl Into<Text>, groups: &[&str]) -> Self {
        Self { name: name.into(), groups: groups.iter().map(Text::new).collect(), ..Self::default() }
    }

    /// Returns the user name of a service account.
    pub fn service_account_name(namespace: &str, name: &str) -> Text {
        format!("system:serviceaccount:{namespace}:{name}").into()
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
