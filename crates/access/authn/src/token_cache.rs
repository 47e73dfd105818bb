//! A cache for token authenticators: results are cached for a while, and concurrent requests with the same token
//! authenticate it only once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_crypto::hmac;
use binnacle_crypto::rand::SystemRandom;
use binnacle_meta::Text;
use binnacle_metrics::{HistogramVec, IntCounterVec, IntGaugeVec, Level, Registry, Series, families};
use binnacle_request::BoxFuture;
use binnacle_work::pace;
use parking_lot::Mutex;
use prometheus::DEFAULT_BUCKETS;
use tokio::sync::OnceCell;

use crate::recent::RecentCache;
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};

/// The minimum number of cached tokens, and the number of shards.
const MIN_ENTRIES: usize = 32 * 1024;
const SHARDS: usize = 32;
/// The timeout of authenticating a token, on behalf of all requests that wait for it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a cached result: a user may be in hundreds of thousands of groups.
const MAX_ENTRY_BYTES: usize = 256 << 10;

/// The TTLs of results; zero disables caching. Errors are never cached.
#[derive(Clone, Copy, Debug)]
pub struct CacheTtls {
    pub success: Duration,
    /// For unknown tokens.
    pub failure: Duration,
}

/// Caches the results of another authenticator. Results that depend on objects ([`AuthenticationResponse::live`]) are
/// authenticated again for each request.
pub struct TokenCache<T> {
    inner: T,
    times: CacheTtls,
    metrics: TokenCacheMetrics,
    /// A random key: only HMACs of tokens are stored, so that clients cannot craft tokens whose cache keys collide.
    key: hmac::Key,
    shards: Vec<Mutex<RecentCache<Key, CacheEntry>>>,
    fetching: Mutex<HashMap<Key, Arc<OnceCell<Outcome>>>>,
}

type Key = [u8; 32];
type Outcome = Result<Option<AuthenticationResponse>, AuthnError>;

#[derive(Clone)]
struct CacheEntry {
    expires: Instant,
    response: Option<AuthenticationResponse>,
}

impl<T: TokenAuthenticator> TokenCache<T> {
    /// Creates a cache. Fails if the system has no random bytes.
    pub fn new(inner: T, times: CacheTtls, metrics: TokenCacheMetrics) -> Result<Self, AuthnError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| AuthnError::new("no random bytes for the memory of tokens"))?;
        let shards = (0..SHARDS).map(|_| Mutex::new(RecentCache::new(MIN_ENTRIES / SHARDS))).collect();
        Ok(Self { inner, times, metrics, key, shards, fetching: Mutex::default() })
    }

    async fn authenticate(&self, token: &str, audiences: &[Text]) -> Outcome {
        let began = Instant::now();
        let key = self.key(token, audiences);
        let known = self.shard(&key).lock().get(&key).filter(|entry| began < entry.expires).cloned();
        let outcome = match &known {
            Some(entry) if !entry.response.as_ref().is_some_and(|response| response.live) => Ok(entry.response.clone()),
            // Live results are authenticated again.
            Some(_) => self.inner.authenticate_token(token, audiences).await,
            None => self.fetch(key, token, audiences).await,
        };
        self.metrics.record_request(known.is_some(), began.elapsed());
        outcome
    }

    /// Authenticates the token, or waits for another request that does. If that request is dropped, a waiting one takes
    /// over.
    async fn fetch(&self, key: Key, token: &str, audiences: &[Text]) -> Outcome {
        let _blocked = GaugeGuard::new(&self.metrics.blocked);
        let cell = self.fetching.lock().entry(key).or_default().clone();
        let outcome = cell.get_or_init(|| async {
            let _in_flight = GaugeGuard::new(&self.metrics.in_flight);
            let response = tokio::time::timeout(TIMEOUT, self.inner.authenticate_token(token, audiences)).await;
            let outcome = response.unwrap_or_else(|_| Err(AuthnError::new("context deadline exceeded")));
            self.metrics.record_fetch(outcome.is_ok());
            if let Ok(response) = &outcome {
                self.insert_response(key, response);
            }
            self.fetching.lock().remove(&key);
            outcome
        });
        let outcome = outcome.await.clone();
        // A dropped request may have left its cell in the map.
        let mut fetching = self.fetching.lock();
        if fetching.get(&key).is_some_and(|other| Arc::ptr_eq(other, &cell)) {
            fetching.remove(&key);
        }
        outcome
    }

    fn insert_response(&self, key: Key, response: &Option<AuthenticationResponse>) {
        let ttl = if response.is_some() { self.times.success } else { self.times.failure };
        if !ttl.is_zero() {
            let bytes = response.as_ref().map_or(0, size);
            if bytes > MAX_ENTRY_BYTES {
                return;
            }
            let entry = CacheEntry { expires: Instant::now() + ttl, response: response.clone() };
            self.shard(&key).lock().insert_sized(key, entry, bytes);
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<RecentCache<Key, CacheEntry>> {
        &self.shards[usize::from(key[0]) % SHARDS]
    }

    /// Returns the HMAC of a token and its audiences, each with its length so that the input is unambiguous.
    fn key(&self, token: &str, audiences: &[Text]) -> Key {
        const BYTES_PER_STEP: usize = 10;
        let bytes = token.len() + audiences.iter().map(|text| text.len() + 8).sum::<usize>();
        pace((bytes / BYTES_PER_STEP) as u64);
        let mut context = hmac::Context::with_key(&self.key);
        for text in std::iter::once(token).chain(audiences.iter().map(Text::as_str)) {
            context.update(&text.len().to_be_bytes());
            context.update(text.as_bytes());
        }
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }
}

impl<T: TokenAuthenticator> TokenAuthenticator for TokenCache<T> {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Text]) -> BoxFuture<'a, Outcome> {
        Box::pin(self.authenticate(token, audiences))
    }
}

/// Returns the size of a result in bytes.
fn size(response: &AuthenticationResponse) -> usize {
    let texts = |texts: &[Text]| texts.iter().map(|text| size_of::<Text>() + text.len()).sum::<usize>();
    let extra = response.user.extra.iter().map(|(key, values)| size_of::<Vec<Text>>() + key.len() + texts(values));
    texts(&response.user.groups) + texts(&response.audiences) + extra.sum::<usize>()
}

families! {
    // kube-apiserver has no help strings for them.
    #[derive(Clone)]
    struct Families {
        requests: IntCounterVec = "authentication_token_cache_request_total" by ["status"], "[ALPHA] ";
        duration: HistogramVec = "authentication_token_cache_request_duration_seconds" by ["status"]
            buckets DEFAULT_BUCKETS, "[ALPHA] ";
        fetches: IntCounterVec = "authentication_token_cache_fetch_total" by ["status"], "[ALPHA] ";
        active: IntGaugeVec = "authentication_token_cache_active_fetch_count" by ["status"], "[ALPHA] ";
    }
}

/// The `authentication_token_cache_*` families, common to all caches.
#[derive(Clone)]
pub struct TokenCacheMetrics {
    families: Families,
    blocked: Arc<Series<IntGaugeVec>>,
    in_flight: Arc<Series<IntGaugeVec>>,
}

impl TokenCacheMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families::register(registry)?;
        let active = |status| Arc::new(Series::new(&families.active, &[status]));
        Ok(Self { blocked: active("blocked"), in_flight: active("in_flight"), families })
    }

    fn record_request(&self, hit: bool, took: Duration) {
        let status = if hit { "hit" } else { "miss" };
        self.families.requests.with_label_values(&[status]).inc();
        // kube-apiserver measures whole milliseconds.
        self.families.duration.with_label_values(&[status]).observe(took.as_millis() as f64 / 1000.0);
    }

    fn record_fetch(&self, ok: bool) {
        self.families.fetches.with_label_values(&[if ok { "ok" } else { "error" }]).inc();
    }
}

/// Increments a gauge for its lifetime.
struct GaugeGuard(Level<i64>);

impl GaugeGuard {
    fn new(series: &Series<IntGaugeVec>) -> Self {
        let gauge = series.with(Level::clone);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use binnacle_request::User;
    use tokio::sync::Semaphore;

    use super::*;

    /// Decides by the prefix of a token, counts calls, and returns from one call for each permit of the gate.
    struct CountingAuthenticator {
        calls: Arc<AtomicU32>,
        gate: Arc<Semaphore>,
    }

    impl TokenAuthenticator for CountingAuthenticator {
        fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Text]) -> BoxFuture<'a, Outcome> {
            Box::pin(async move {
                self.calls.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.unwrap().forget();
                match token.split('-').next() {
                    Some("good") => Ok(Some(AuthenticationResponse::new(Arc::new(User::new("u", &[]))))),
                    Some("live") => Ok(Some(AuthenticationResponse {
                        live: true,
                        ..AuthenticationResponse::new(Arc::new(User::new("u", &[])))
                    })),
                    Some("bad") => Err(AuthnError::new("bad")),
                    _ => Ok(None),
                }
            })
        }
    }

    struct Fixture {
        cache: Arc<TokenCache<CountingAuthenticator>>,
        calls: Arc<AtomicU32>,
        gate: Arc<Semaphore>,
    }

    fn fixture(success: u64, failure: u64, answers: usize) -> Fixture {
        let (calls, gate) = (Arc::<AtomicU32>::default(), Arc::new(Semaphore::new(answers)));
        let inner = CountingAuthenticator { calls: calls.clone(), gate: gate.clone() };
        let times = CacheTtls { success: Duration::from_secs(success), failure: Duration::from_secs(failure) };
        let metrics = TokenCacheMetrics::register(&Registry::new()).unwrap();
        Fixture { cache: Arc::new(TokenCache::new(inner, times, metrics).unwrap()), calls, gate }
    }

    #[tokio::test]
    async fn caches_successes_and_failures_but_no_errors_or_live_responses() {
        for (success, failure, token, want) in [
            (10, 0, "good-1", 1),
            (0, 0, "good-1", 3),
            (10, 0, "live-1", 3),
            (10, 0, "unknown", 3),
            (10, 10, "unknown", 1),
            (10, 10, "bad-1", 3),
        ] {
            let fixture = fixture(success, failure, 100);
            for _ in 0..3 {
                let outcome = fixture.cache.authenticate_token(token, &[]).await;
                assert_eq!(outcome.is_err(), token == "bad-1");
            }
            assert_eq!(fixture.calls.load(Ordering::SeqCst), want, "{token} {success} {failure}");
            assert!(fixture.cache.fetching.lock().is_empty());
        }
    }

    #[tokio::test]
    async fn keys_entries_by_token_and_audiences() {
        let fixture = fixture(10, 10, 100);
        let ab: Vec<Text> = vec!["ab".into()];
        for (token, audiences) in [("good", &ab[..]), ("good-", &ab), ("good", &[]), ("goodab", &[]), ("good", &ab)] {
            fixture.cache.authenticate_token(token, audiences).await.unwrap();
        }
        assert_eq!(fixture.calls.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_fetch() {
        let fixture = fixture(0, 0, 0);
        let authenticate = || {
            let cache = fixture.cache.clone();
            tokio::spawn(async move { cache.authenticate_token("good-1", &[]).await })
        };
        let first = authenticate();
        while fixture.calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..10).map(|_| authenticate()).collect();
        // If the first request is dropped, another one takes over.
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        while fixture.calls.load(Ordering::SeqCst) == 1 {
            tokio::task::yield_now().await;
        }
        fixture.gate.add_permits(1);
        for other in others {
            assert!(other.await.unwrap().unwrap().is_some());
        }
        assert_eq!(fixture.calls.load(Ordering::SeqCst), 2);
        assert!(fixture.cache.fetching.lock().is_empty());
        assert_eq!(
            (fixture.cache.metrics.blocked.with(Level::get), fixture.cache.metrics.in_flight.with(Level::get)),
            (0, 0)
        );
    }
}
