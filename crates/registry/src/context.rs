//! The parts of a request that the verbs work with.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use binnacle_features::Features;
use binnacle_meta::Text;
use binnacle_request::User;
use binnacle_scheme::StrategyContext;

use crate::admission::WriteOptions;
use crate::elsewhere::Elsewhere;
use crate::notes::RequestNotes;

/// One request, as far as the registry is concerned.
#[derive(Debug)]
pub struct Context {
    pub user: User,
    /// Empty for cluster-scoped resources and lists across namespaces.
    pub namespace: Text,
    /// The name in the request's path; empty where it has none, as when an object is created in a collection.
    pub name: Text,
    /// The verb of the request, as authorizers know it; empty for what the server does by itself.
    pub verb: Text,
    pub dry_run: bool,
    /// The options of a write as they were sent.
    pub options: WriteOptions,
    /// The moment at which the request is answered at the latest, if it has a deadline.
    pub deadline: Option<Instant>,
    /// The time in all timestamps of this request.
    pub now: SystemTime,
    /// Warnings and audit annotations of the request.
    pub notes: RequestNotes,
    /// Objects in other versions than that of the request.
    pub(crate) elsewhere: Elsewhere,
}

impl Context {
    pub fn new(user: User, namespace: Text, dry_run: bool) -> Self {
        Self {
            user,
            namespace,
            name: Text::default(),
            verb: Text::default(),
            dry_run,
            options: WriteOptions { dry_run, ..WriteOptions::default() },
            deadline: None,
            now: SystemTime::now(),
            notes: RequestNotes::default(),
            elsewhere: Elsewhere::default(),
        }
    }

    /// The same, with a place for notes that the caller reads.
    #[must_use]
    pub fn with_notes(self, notes: RequestNotes) -> Self {
        Self { notes, ..self }
    }

    /// The same, with what was sent beside the object, and the time that there is.
    #[must_use]
    pub fn asked(self, options: WriteOptions, deadline: Option<Instant>) -> Self {
        Self { options, deadline, ..self }
    }

    /// The same, with the verb of the request.
    #[must_use]
    pub fn by_verb(self, verb: &str) -> Self {
        Self { verb: verb.into(), ..self }
    }

    /// The same, for the object that the request's path names.
    #[must_use]
    pub fn named(self, name: Text) -> Self {
        Self { name, ..self }
    }

    /// The same request for one of the objects that it is about.
    pub(crate) fn for_one_object(&self) -> Self {
        Self {
            now: self.now,
            options: self.options.clone(),
            deadline: self.deadline,
            notes: self.notes.clone(),
            ..Self::new(self.user.clone(), self.namespace.clone(), self.dry_run)
        }
    }

    /// A request of the server itself.
    pub fn internal(namespace: &str) -> Self {
        static USER: LazyLock<User> = LazyLock::new(|| User {
            uid: uuid::Uuid::new_v4().to_string().into(),
            ..User::new(User::APISERVER, &[User::AUTHENTICATED, User::MASTERS])
        });
        Self::new(USER.clone(), namespace.into(), false)
    }

    /// Adds a text for a `Warning` header.
    pub fn warn(&self, text: impl Into<String>) {
        self.notes.warn(text);
    }

    /// Seconds since the epoch.
    pub fn now_seconds(&self) -> i64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
    }

    /// Returns the context for strategies; `api_version` is that of the request.
    pub fn situation<'a>(&'a self, api_version: &'a str, features: &'a Features) -> StrategyContext<'a> {
        StrategyContext {
            now: self.now_seconds(),
            namespace: &self.namespace,
            api_version,
            dry_run: self.dry_run,
            features,
        }
    }
}
