//! Kubeconfig files as the configuration of a target: the cluster and user of the current context.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::{io_error, read_error};
use binnacle_schema::{Limits, Value, yaml};

use crate::credential::Credential;
use crate::target::{Identity, IdentityFiles, Target, TargetError};

/// Errors of kubeconfig files.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("stat {0}: no such file or directory")]
    Missing(String),
    #[error("error loading config file \"{path}\": {}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("error loading config file \"{path}\": {why}")]
    Syntax { path: String, why: String },
    #[error("invalid configuration: {0}")]
    Invalid(String),
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Reads a file; its relative paths start at its directory.
pub fn load(path: &Path) -> Result<Target, KubeconfigError> {
    parse(path, &read(path)?)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    fs::read(path).map_err(|error| {
        let path = path.display().to_string();
        match error.kind() {
            std::io::ErrorKind::NotFound => KubeconfigError::Missing(path),
            _ => KubeconfigError::Unreadable { path, error },
        }
    })
}

pub(crate) fn tree(path: &Path, text: &[u8]) -> Result<Value, KubeconfigError> {
    let syntax = |why: String| KubeconfigError::Syntax { path: path.display().to_string(), why };
    yaml::parse(text, &Limits::default()).map(|(tree, _)| tree).map_err(|error| syntax(error.to_string()))
}

/// Parses the contents of a file; `path` is for messages and relative paths.
pub fn parse(path: &Path, text: &[u8]) -> Result<Target, KubeconfigError> {
    let config = tree(path, text)?;
    if config.list_at(&["clusters"]).is_empty() && config.list_at(&["users"]).is_empty() {
        let none = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
        return Err(KubeconfigError::Invalid(none.to_owned()));
    }
    let current = config.str_at(&["current-context"]);
    let context = find_entry(&config, "contexts", "context", current);
    if context.is_none() && !current.is_empty() {
        return Err(KubeconfigError::Invalid(format!("context was not found for specified context: {current}")));
    }
    let of = |member: &str| context.map_or("", |context| context.str_at(&[member]));
    let dir = path.parent().unwrap_or(Path::new(""));
    let cluster = find_entry(&config, "clusters", "cluster", of("cluster"));
    let server = cluster.map_or("", |cluster| cluster.str_at(&["server"]));
    let Some(cluster) = cluster.filter(|_| !server.is_empty()) else {
        return Err(KubeconfigError::Invalid("cluster has no server defined".to_owned()));
    };
    if !cluster.str_at(&["proxy-url"]).is_empty() {
        return Err(KubeconfigError::Invalid("proxy-url is not supported".to_owned()));
    }
    let mut target = Target::rest(server)?;
    target.authorities = data_or_file(cluster, "certificate-authority", dir)?;
    target.insecure = cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false);
    if target.insecure && target.authorities.is_some() {
        let both = "specifying a root certificates file with the insecure flag is not allowed";
        return Err(KubeconfigError::Target(TargetError(both.to_owned())));
    }
    let name = cluster.str_at(&["tls-server-name"]);
    target.server_name = (!name.is_empty()).then(|| name.to_owned());

    // A user name without an entry has no credentials, as in client-go.
    if let Some(user) = find_entry(&config, "users", "user", of("user")) {
        (target.identity, target.credential) = credentials(user, dir)?;
    }
    Ok(target)
}

/// Returns an entry of a list by its name.
fn find_entry<'a>(config: &'a Value, list: &str, member: &str, name: &str) -> Option<&'a Value> {
    let mut entries = config.list_at(&[list]).iter();
    entries.find(|entry| !name.is_empty() && entry.str_at(&["name"]) == name)?.get(member)
}

pub(crate) fn credentials(user: &Value, dir: &Path) -> Result<(Option<Identity>, Credential), KubeconfigError> {
    for unsupported in ["exec", "auth-provider"] {
        if user.get(unsupported).is_some_and(|value| !value.is_null()) {
            return Err(KubeconfigError::Invalid(format!("users with {unsupported} are not supported for webhooks")));
        }
    }
    let certificate = data_or_file(user, "client-certificate", dir)?;
    let key = data_or_file(user, "client-key", dir)?;
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key, files: identity_files(user, dir) }),
        (None, None) => None,
        (Some(_), None) => {
            let missing = "client-key-data or client-key must be specified to use the clientCert authentication method";
            return Err(KubeconfigError::Invalid(missing.to_owned()));
        }
        (None, Some(_)) => return Err(KubeconfigError::Invalid("a client key needs a client certificate".to_owned())),
    };
    let text = |member: &str| user.str_at(&[member]);
    let credential = if !text("tokenFile").is_empty() {
        Credential::BearerFile(resolve(dir, text("tokenFile")))
    } else if !text("token").is_empty() {
        Credential::Bearer(text("token").to_owned())
    } else if !text("username").is_empty() {
        Credential::Basic { username: text("username").to_owned(), password: text("password").to_owned() }
    } else {
        Credential::None
    };
    Ok((identity, credential))
}

/// Returns the files of a client certificate and its key, if both are outside the kubeconfig file.
fn identity_files(user: &Value, dir: &Path) -> Option<IdentityFiles> {
    let [certificate, key] = ["client-certificate", "client-key"].map(|name| {
        let in_file = user.str_at(&[format!("{name}-data").as_str()]).is_empty();
        in_file.then(|| resolve(dir, user.str_at(&[name])))
    });
    Some(IdentityFiles { certificate: certificate?, key: key? })
}

/// Returns `NAME-data`, decoded from base64, or else the contents of the file `NAME`.
fn data_or_file(parent: &Value, name: &str, dir: &Path) -> Result<Option<Vec<u8>>, KubeconfigError> {
    let data = parent.str_at(&[format!("{name}-data").as_str()]);
    if !data.is_empty() {
        let compact: String = data.split_whitespace().collect();
        let decoded = BASE64_STANDARD.decode(compact);
        return decoded.map(Some).map_err(|error| KubeconfigError::Invalid(format!("{name}-data: {error}")));
    }
    let file = parent.str_at(&[name]);
    if file.is_empty() {
        return Ok(None);
    }
    let path = resolve(dir, file);
    fs::read(&path).map(Some).map_err(|error| {
        KubeconfigError::Invalid(format!("unable to read {name} {}: {}", path.display(), io_error(&error)))
    })
}

fn resolve(dir: &Path, file: &str) -> PathBuf {
    dir.join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: a, user: u}}\n\
             clusters:\n- name: a\n  cluster: {cluster}\nusers:\n- name: u\n  user: {user}\n"
        )
    }

    #[test]
    fn reads_cluster_and_user_of_the_current_context() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        fs::write(dir.path().join("ca.pem"), "authority").unwrap();
        fs::write(dir.path().join("token"), "t").unwrap();
        let cluster = "{server: 'https://a:1/x?y=z', certificate-authority: ca.pem, tls-server-name: name}";
        let target = parse(&path, config(cluster, "{tokenFile: token}").as_bytes()).unwrap();
        assert_eq!(target.url.to_string(), "https://a:1/x");
        assert_eq!(target.authorities.as_deref(), Some(&b"authority"[..]));
        assert_eq!(target.server_name.as_deref(), Some("name"));
        assert!(matches!(&target.credential, Credential::BearerFile(file) if *file == dir.path().join("token")));
        let user = "{client-certificate-data: YQ==, client-key-data: Yg==, username: me, password: p}";
        let target = parse(&path, config("{server: 'http://a', insecure-skip-tls-verify: true}", user).as_bytes());
        let target = target.unwrap();
        assert!(target.insecure && target.authorities.is_none());
        assert_eq!(target.identity.unwrap().key, b"b");
        assert!(matches!(target.credential, Credential::Basic { .. }));
    }

    #[test]
    fn accepts_a_user_name_without_an_entry() {
        let text = config("{server: 'https://a'}", "{token: t}").replace("- name: u", "- name: other");
        let target = parse(Path::new("/etc/config"), text.as_bytes()).unwrap();
        assert!(target.identity.is_none() && matches!(target.credential, Credential::None));
    }

    #[test]
    fn reports_errors_like_client_go() {
        let path = Path::new("/nonexistent/config");
        assert_eq!(load(path).unwrap_err().to_string(), "stat /nonexistent/config: no such file or directory");
        let empty = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
        for (text, want) in [
            (String::new(), empty),
            ("{}".to_owned(), empty),
            ("a: [".to_owned(), "error loading config file \"/nonexistent/config\": "),
            (config("{}", "{}"), "invalid configuration: cluster has no server defined"),
            (config("{server: 'nothing'}", "{}"), "host must be a URL or a host:port pair"),
            (
                config("{server: 'https://a', certificate-authority: ca}", "{}"),
                "invalid configuration: unable to read certificate-authority /nonexistent/ca: no such file or directory",
            ),
            (config("{server: 'https://a'}", "{exec: {command: x}}"), "invalid configuration: users with exec"),
            (
                config("{server: 'https://a'}", "{client-certificate-data: YQ==}"),
                "invalid configuration: client-key-data or client-key must be specified",
            ),
            (
                config("{server: 'https://a'}", "{}").replace("current-context: c", "current-context: d"),
                "invalid configuration: context was not found for specified context: d",
            ),
        ] {
            let error = parse(path, text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
