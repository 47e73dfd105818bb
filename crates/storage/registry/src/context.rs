//! The parts of a request that the verbs use.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use binnacle_meta::Text;
use binnacle_request::User;

use crate::admission::WriteOptions;
use crate::conversions::PendingConversions;
use crate::notes::RequestNotes;

/// The context of a request in the registry.
#[derive(Debug)]
pub struct Context {
    pub user: User,
    /// Empty for cluster-scoped resources and lists across namespaces.
    pub namespace: Text,
    /// The name in the request's path, or empty if there is none, for example in a create request.
    pub name: Text,
    /// The verb of the request, as used by authorizers. Empty for requests of the server itself.
    pub verb: Text,
    pub dry_run: bool,
    /// The options of a write, as the client sent them.
    pub options: WriteOptions,
    /// The deadline of the request, if it has one.
    pub deadline: Option<Instant>,
    /// The time used for all timestamps of this request.
    pub now: SystemTime,
    /// Warnings and audit annotations of the request.
    pub notes: RequestNotes,
    /// The conversions that this request needs, and their results.
    pub(crate) pending_conversions: PendingConversions,
    /// True for a request of the server itself.
    pub(crate) by_server: bool,
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
            pending_conversions: PendingConversions::default(),
            by_server: false,
        }
    }

    /// Sets the receiver of warnings and annotations.
    #[must_use]
    pub fn with_notes(self, notes: RequestNotes) -> Self {
        Self { notes, ..self }
    }

    /// Sets the options of the write and the deadline of the request.
    #[must_use]
    pub fn with_options(self, options: WriteOptions, deadline: Option<Instant>) -> Self {
        Self { options, deadline, ..self }
    }

    /// Sets the verb of the request.
    #[must_use]
    pub fn with_verb(self, verb: &str) -> Self {
        Self { verb: verb.into(), ..self }
    }

    /// Sets the name in the request's path.
    #[must_use]
    pub fn with_name(self, name: Text) -> Self {
        Self { name, ..self }
    }

    /// Returns the context for one object of a request on a collection.
    pub(crate) fn for_one_object(&self) -> Self {
        Self {
            now: self.now,
            options: self.options.clone(),
            deadline: self.deadline,
            notes: self.notes.clone(),
            ..Self::new(self.user.clone(), self.namespace.clone(), self.dry_run)
        }
    }

    /// Returns the context of a request of the server itself.
    pub fn internal(namespace: &str) -> Self {
        static USER: LazyLock<User> = LazyLock::new(|| User {
            uid: uuid::Uuid::new_v4().to_string().into(),
            ..User::new(User::APISERVER, &[User::AUTHENTICATED, User::MASTERS])
        });
        Self { by_server: true, ..Self::new(USER.clone(), namespace.into(), false) }
    }

    /// Adds a text for a `Warning` header.
    pub fn warn(&self, text: impl Into<String>) {
        self.notes.warn(text);
    }

    /// Returns the seconds since the epoch.
    pub fn now_seconds(&self) -> i64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
    }
}
