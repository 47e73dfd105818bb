//! How callers prove who they are.

use std::path::PathBuf;

use super::parse::Given;
use super::table::{Flag, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Authentication",
    flags: &[
        Flag::new(
            "client-ca-file",
            Kind::Value("string"),
            "",
            "File with the authorities whose client certificates are accepted: the common name is the user, the organizations \
             are the groups. If not set, the server's own authority is accepted and an administrator's certificate is made.",
        ),
        Flag::new(
            "service-account-issuer",
            Kind::Value("stringArray"),
            "https://kubernetes.default.svc",
            "Issuer of service account tokens. May be given more than once: the first issues, all are accepted.",
        ),
        Flag::new(
            "token-auth-file",
            Kind::Value("string"),
            "",
            "File with static bearer tokens, one 'token,user,uid,\"group1,group2\"' a line.",
        ),
    ],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Authentication {
    pub(crate) client_ca_file: Option<PathBuf>,
    pub(crate) token_auth_file: Option<PathBuf>,
    pub(crate) service_account_issuers: Vec<String>,
}

impl Authentication {
    pub(super) fn read(given: &Given) -> Self {
        let path = |name| given.text(name).map(PathBuf::from);
        Self {
            client_ca_file: path("client-ca-file"),
            token_auth_file: path("token-auth-file"),
            service_account_issuers: given.all("service-account-issuer").into_iter().map(str::to_owned).collect(),
        }
    }
}
