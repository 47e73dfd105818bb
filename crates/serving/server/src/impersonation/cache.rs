//! A cache of allowed impersonations: an agent that lists, watches and writes as its node needs the same permission for
//! each request. Denials are not cached. Entries expire after seconds, so a revoked permission may remain effective for
//! that time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_authn::RecentCache;
use binnacle_authz::Attributes;
use binnacle_crypto::digest;
use binnacle_meta::Text;
use binnacle_request::User;
use binnacle_work::pace;
use parking_lot::Mutex;

use super::mode::Mode;

/// The same time as for responses of token webhooks.
pub(super) const CACHE_TTL: Duration = Duration::from_secs(10);
/// The minimum number of cached entries.
const MIN_ENTRIES: usize = 10_000;
/// The limit on the memory of a cached user.
const MAX_USER_BYTES: usize = 8192;

/// Recently allowed impersonations.
pub(super) struct ImpersonationCache {
    ttl: Duration,
    users: Mutex<RecentCache<Key, (Instant, Arc<User>)>>,
}

/// The key of a decision, hashed because callers choose most of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl ImpersonationCache {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, users: Mutex::new(RecentCache::new(MIN_ENTRIES)) }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<User>> {
        let users = self.users.lock();
        users.get(key).filter(|(since, _)| since.elapsed() < self.ttl).map(|(_, user)| user.clone())
    }

    /// Inserts a user. Large users are not cached, because callers choose the headers, which may have a megabyte.
    pub(super) fn insert(&self, key: Key, user: Arc<User>) {
        if size(&user) <= MAX_USER_BYTES {
            self.users.lock().insert(key, (Instant::now(), user));
        }
    }
}

impl Key {
    /// Returns the key of the decision that `requestor` may impersonate `target` in general.
    pub(super) fn of_user(mode: Mode, target: &User, requestor: &User) -> Self {
        let mut hash = Hash::begin(0, mode);
        hash.user(target);
        hash.user(requestor);
        hash.end()
    }

    /// Returns the key of the decision that the requestor may do so for this request.
    pub(super) fn of_request(mode: Mode, target: &User, request: &Attributes<'_>) -> Self {
        let mut hash = Hash::begin(1, mode);
        hash.user(target);
        hash.user(request.user);
        let Attributes {
            user: _,
            verb,
            is_resource_request,
            path,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name,
            field_selector,
            label_selector,
        } = request;
        let is_resource_request = if *is_resource_request { "1" } else { "" };
        for text in [
            is_resource_request,
            verb,
            path,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name,
            field_selector,
            label_selector,
        ] {
            hash.text(text);
        }
        hash.end()
    }
}

fn size(user: &User) -> usize {
    let lengths = |texts: &[Text]| texts.iter().map(|text| size_of::<Text>() + text.len()).sum::<usize>();
    let extra = user.extra.iter().map(|(key, values)| key.len() + lengths(values));
    user.name.len() + user.uid.len() + lengths(&user.groups) + extra.sum::<usize>()
}

/// A hash of length-prefixed texts, so that adjacent texts cannot be confused.
struct Hash(digest::Context);

impl Hash {
    fn begin(kind: u8, mode: Mode) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(&[kind, mode as u8]);
        Self(hash)
    }

    fn length(&mut self, length: usize) {
        self.0.update(&(length as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.update(text.as_bytes());
    }

    fn texts(&mut self, texts: &[Text]) {
        // Headers may name tens of thousands of groups.
        pace(5 * texts.len() as u64);
        self.length(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    fn user(&mut self, user: &User) {
        let User { name, uid, groups, extra } = user;
        self.text(name);
        self.text(uid);
        self.texts(groups);
        self.length(extra.len());
        for (key, values) in extra {
            self.text(key);
            self.texts(values);
        }
    }

    fn end(self) -> Key {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.finish().as_ref());
        Key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_distinguish_decisions() {
        let user = |name: &str, groups: &[&str]| User::new(name, groups);
        let with_extra =
            |key: &str, value: &str| User { extra: [(key.into(), vec![value.into()])].into(), ..user("a", &[]) };
        let users = [
            user("a", &[]),
            user("", &["a"]),
            user("a", &["b"]),
            user("a", &["", "b"]),
            user("ab", &[]),
            User { uid: "b".into(), ..user("a", &[]) },
            with_extra("b", "c"),
            with_extra("bc", ""),
        ];
        let mut keys = Vec::new();
        for mode in [Mode::UserInfo, Mode::ServiceAccount] {
            for target in &users {
                for requestor in &users {
                    keys.push(Key::of_user(mode, target, requestor));
                    let nothing = Attributes::nothing(requestor);
                    keys.push(Key::of_request(mode, target, &nothing));
                    keys.push(Key::of_request(mode, target, &Attributes { verb: "get", ..nothing }));
                    keys.push(Key::of_request(mode, target, &Attributes { path: "get", ..nothing }));
                    keys.push(Key::of_request(mode, target, &Attributes { label_selector: "get", ..nothing }));
                    keys.push(Key::of_request(mode, target, &Attributes { is_resource_request: true, ..nothing }));
                }
            }
        }
        let different: std::collections::HashSet<Key> = keys.iter().copied().collect();
        assert_eq!(different.len(), keys.len());
        assert_eq!(keys[0], Key::of_user(Mode::UserInfo, &users[0], &users[0]));
    }

    #[test]
    fn expires_old_entries_and_skips_large_ones() {
        let me = User::new("me", &[]);
        let key = Key::of_user(Mode::UserInfo, &me, &me);
        for (ttl, is_cached) in [(CACHE_TTL, true), (Duration::ZERO, false)] {
            let allowed = ImpersonationCache::new(ttl);
            assert!(allowed.get(&key).is_none());
            allowed.insert(key, Arc::new(me.clone()));
            assert_eq!(allowed.get(&key).is_some(), is_cached);
        }
        let allowed = ImpersonationCache::new(CACHE_TTL);
        allowed.insert(key, Arc::new(User::new("me", &[&"x".repeat(MAX_USER_BYTES)])));
        assert!(allowed.get(&key).is_none());
    }
}
