//! Static bearer tokens (`--token-auth-file`), one `token,user,uid,"group1,group2"` per line.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use binnacle_meta::{Text, read_error};
use binnacle_request::{BoxFuture, User};

use crate::authenticator::with_authenticated_group;
use crate::csv::{CsvError, records};
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};

/// The tokens of a file, stored as digests so that the time of a lookup reveals nothing about a token.
pub struct TokenFile {
    holders: HashMap<[u8; 32], Arc<User>>,
    audiences: Vec<Text>,
}

/// The error of an invalid token file.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("{}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("token file '{path}' must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns { path: String, found: usize },
    #[error("{0}")]
    Syntax(String),
}

impl From<CsvError> for TokenFileError {
    fn from(error: CsvError) -> Self {
        Self::Syntax(error.to_string())
    }
}

impl TokenFile {
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let shown = path.display().to_string();
        match std::fs::read(path) {
            Ok(file) => Self::parse(&shown, &file),
            Err(error) => Err(TokenFileError::Unreadable { path: shown, error }),
        }
    }

    /// Parses the contents of a file; `path` is for messages.
    pub fn parse(path: &str, file: &[u8]) -> Result<Self, TokenFileError> {
        let mut holders = HashMap::new();
        for (at, record) in records(file)?.into_iter().enumerate() {
            let number = at + 1;
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::Columns { path: path.to_owned(), found: record.len() });
            };
            if token.is_empty() {
                tracing::warn!("empty token has been found in token file '{path}', record number '{number}'");
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(Into::into).collect()).unwrap_or_default();
            let user = User { name: name.into(), uid: uid.into(), groups, ..User::default() };
            if holders.insert(digest(token.as_bytes()), with_authenticated_group(user)).is_some() {
                tracing::warn!("duplicate token has been found in token file '{path}', record number '{number}'");
            }
        }
        Ok(Self { holders, audiences: Vec::new() })
    }

    /// Creates a table with a single token, without a file.
    pub fn of_one(token: &str, user: User) -> Self {
        let holders = HashMap::from([(digest(token.as_bytes()), with_authenticated_group(user))]);
        Self { holders, audiences: Vec::new() }
    }

    /// Sets the audiences of the server, which the tokens are valid for.
    #[must_use]
    pub fn for_audiences(self, audiences: Vec<Text>) -> Self {
        Self { audiences, ..self }
    }

    /// Returns the user of a token.
    pub fn holder(&self, token: &[u8]) -> Option<Arc<User>> {
        self.holders.get(&digest(token)).cloned()
    }
}

impl TokenAuthenticator for TokenFile {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        let holder = self.holder(token.as_bytes());
        let holder = holder.and_then(|user| AuthenticationResponse::for_any_audience(user, &self.audiences, audiences));
        Box::pin(async { Ok(holder) })
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    binnacle_crypto::sha256(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_users_and_groups() {
        let file = "a,alice,1,\"system:masters,dev\"\nb,bob,2\n,nobody,3\na,anna,4\nc,carl,5,system:authenticated\nd,dora,6,\n";
        let tokens = TokenFile::parse("t", file.as_bytes()).unwrap();
        for (token, want) in [
            ("a", Some("anna 4 system:authenticated")),
            ("b", Some("bob 2 system:authenticated")),
            ("c", Some("carl 5 system:authenticated")),
            ("d", Some("dora 6 ,system:authenticated")),
            ("", None),
            ("x", None),
        ] {
            let shown = tokens.holder(token.as_bytes()).map(|u| format!("{} {} {}", u.name, u.uid, u.groups.join(",")));
            assert_eq!(shown.as_deref(), want, "{token}");
        }
        let tokens = TokenFile::parse("t", b"a,alice,1,\"system:masters,dev\",more\n").unwrap();
        assert_eq!(tokens.holder(b"a").unwrap().groups, ["system:masters", "dev", "system:authenticated"]);
    }

    #[test]
    fn reports_errors_of_files() {
        for (file, want) in [
            ("a,b\n", "token file 't' must have at least 3 columns (token, user name, user uid), found 2"),
            ("a,b,c,\"x\n", "parse error on line 1, column 10: extraneous or missing \" in quoted-field"),
        ] {
            assert_eq!(TokenFile::parse("t", file.as_bytes()).err().unwrap().to_string(), want);
        }
        let error = TokenFile::load(Path::new("/nonexistent/tokens")).err().unwrap().to_string();
        assert!(error.starts_with("open /nonexistent/tokens: no such file"), "{error}");
    }
}
