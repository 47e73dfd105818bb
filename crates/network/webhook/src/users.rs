//! Users of a kubeconfig file by host: the credentials for calls to admission webhooks.

use std::collections::HashMap;
use std::path::Path;

use crate::credential::Credential;
use crate::kubeconfig::{KubeconfigError, credentials, read, tree};
use crate::target::Identity;

/// The credentials for calls, by server.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_name: HashMap<String, (Option<Identity>, Credential)>,
    /// The user of the current context, for servers without an entry.
    current: Option<String>,
}

impl Users {
    /// Reads a kubeconfig file. Its clusters are ignored.
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        Self::parse(path, &read(path)?)
    }

    fn parse(path: &Path, text: &[u8]) -> Result<Self, KubeconfigError> {
        let config = tree(path, text)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let mut by_name = HashMap::new();
        for entry in config.list_at(&["users"]) {
            if let Some(user) = entry.get("user") {
                by_name.insert(entry.str_at(&["name"]).to_owned(), credentials(user, dir)?);
            }
        }
        let current_name = config.str_at(&["current-context"]);
        let context = config.list_at(&["contexts"]).iter().find(|context| context.str_at(&["name"]) == current_name);
        let current = context.map(|context| context.str_at(&["context", "user"]).to_owned());
        Ok(Self { by_name, current: current.filter(|user| !user.is_empty()) })
    }

    /// Returns the credentials for a server. The first user that exists applies: `HOST:PORT`, its nearest domain
    /// (`*.DOMAIN:PORT`), the same without the port if it is 443, `*`, the user of the current context. Without one,
    /// there are no credentials.
    pub fn of_host(&self, host: &str, port: u16) -> (Option<Identity>, Credential) {
        let with_port = format!("{host}:{port}");
        let found = self.nearest(&with_port).or_else(|| if port == 443 { self.nearest(host) } else { None });
        let found = found.or_else(|| self.by_name.get("*"));
        let found = found.or_else(|| self.by_name.get(self.current.as_ref()?));
        found.cloned().unwrap_or_default()
    }

    fn nearest(&self, target: &str) -> Option<&(Option<Identity>, Credential)> {
        let domains = target.match_indices('.').map(|(dot, _)| format!("*{}", &target[dot..]));
        self.by_name.get(target).or_else(|| domains.into_iter().find_map(|domain| self.by_name.get(&domain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_the_most_specific_user() {
        let user = |name: &str| format!("- name: '{name}'\n  user: {{token: '{name}'}}\n");
        let names = ["a.b.svc:443", "*.b.svc:8443", "*.svc", "hook.example.com"];
        let mut text = "current-context: c\ncontexts: [{name: c, context: {user: me}}]\nusers:\n".to_owned();
        names.iter().for_each(|name| text += &user(name));
        let with = |more: &str| Users::parse(Path::new("/c"), (text.clone() + &user(more)).as_bytes()).unwrap();
        let token = |users: &Users, host: &str, port: u16| match users.of_host(host, port).1 {
            Credential::Bearer(token) => token,
            _ => String::new(),
        };
        for (host, port, want) in [
            ("a.b.svc", 443, "a.b.svc:443"),
            ("a.b.svc", 8443, "*.b.svc:8443"),
            ("x.c.svc", 443, "*.svc"),
            ("x.c.svc", 444, "*"),
            ("hook.example.com", 443, "hook.example.com"),
            ("other", 443, "*"),
        ] {
            assert_eq!(token(&with("*"), host, port), want, "{host}:{port}");
        }
        assert_eq!(token(&with("me"), "other", 443), "me");
        assert_eq!(token(&with("you"), "other", 443), "");
        assert!(matches!(Users::default().of_host("a", 1), (None, Credential::None)));
    }
}
