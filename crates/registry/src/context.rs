//! What the verbs know of the request that they serve.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_kinds::Situation;
use binnacle_meta::Text;
use binnacle_request::User;
use parking_lot::Mutex;

/// One request, as far as the registry is concerned.
#[derive(Debug)]
pub struct Context {
    pub user: User,
    /// Empty for cluster-scoped resources and lists across namespaces.
    pub namespace: Text,
    pub dry_run: bool,
    /// The moment that all timestamps of this request tell.
    pub now: SystemTime,
    warnings: Mutex<Vec<String>>,
}

impl Context {
    pub fn new(user: User, namespace: Text, dry_run: bool) -> Self {
        Self { user, namespace, dry_run, now: SystemTime::now(), warnings: Mutex::new(Vec::new()) }
    }

    /// The same request for an object of one of the namespaces that it spans. Warnings are not carried over.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            now: self.now,
            ..Self::new(self.user.clone(), Text::default(), self.dry_run)
        }
    }

    /// A request of the server itself.
    pub fn internal(namespace: &str) -> Self {
        let user = User::new("system:apiserver", &["system:masters", "system:authenticated"]);
        Self::new(user, namespace.into(), false)
    }

    /// Adds a text for a `Warning` header; a text said already is not said again.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Seconds since the epoch.
    pub fn now_seconds(&self) -> i64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
    }

    pub fn situation(&self) -> Situation<'_> {
        Situation { now: self.now_seconds(), namespace: &self.namespace, dry_run: self.dry_run }
    }
}
