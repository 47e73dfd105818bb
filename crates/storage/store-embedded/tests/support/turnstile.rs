//! A point at which the thread that rewrites segments can be held, so that a test decides what happens between two of
//! its operations.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The modifying operations on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Rename,
    Remove,
    SyncDir,
    Write,
    Sync,
    Resize,
}

#[derive(Default)]
pub(crate) struct Turnstile {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True while the thread is held before each operation of the kind in `at`, or of any kind.
    closed: bool,
    at: Option<Operation>,
    /// The number of operations that may pass although it is closed.
    permits: u64,
    /// True while the thread is held.
    holds: bool,
}

/// Holds the thread until it is dropped, so that a test that fails does not wait for it forever.
pub(crate) struct Hold(Arc<Turnstile>);

/// The name of the thread that is held.
const THREAD: &str = "store-mover";
/// The time after which a thread that is expected at the turnstile is considered stuck.
const PATIENCE: Duration = Duration::from_secs(60);

// === impl Turnstile ===

impl Turnstile {
    /// Holds the thread before its next operation, of one kind or of any.
    pub(crate) fn hold(self: &Arc<Self>, at: Option<Operation>) -> Hold {
        let mut state = self.state.lock();
        assert!(!state.closed, "the thread is held once");
        (state.closed, state.at) = (true, at);
        Hold(self.clone())
    }

    /// Called before each operation, by any thread.
    pub(crate) fn pass(&self, operation: Operation) {
        if std::thread::current().name() != Some(THREAD) {
            return;
        }
        let mut state = self.state.lock();
        let meant = |state: &State| state.closed && state.at.is_none_or(|at| at == operation);
        while meant(&state) && state.permits == 0 {
            state.holds = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        state.holds = false;
        if meant(&state) {
            state.permits -= 1;
        }
    }
}

// === impl Hold ===

impl Hold {
    /// Lets a held thread execute one operation. Returns false if it is not held.
    pub(crate) fn step(&self) -> bool {
        let mut state = self.0.state.lock();
        if !state.holds || state.permits > 0 {
            return false;
        }
        state.permits = 1;
        self.0.changed.notify_all();
        true
    }

    /// Lets the thread continue, and waits until it is held before an operation of another kind.
    pub(crate) fn go_on_to(&self, at: Operation) {
        let mut state = self.0.state.lock();
        (state.at, state.holds) = (Some(at), false);
        self.0.changed.notify_all();
        drop(state);
        self.wait();
    }

    /// Waits until the thread is held. The caller has given it work to do.
    pub(crate) fn wait(&self) {
        let mut state = self.0.state.lock();
        while !state.holds || state.permits > 0 {
            let late = self.0.changed.wait_for(&mut state, PATIENCE).timed_out();
            assert!(!late, "the thread does not come");
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        (state.closed, state.permits) = (false, 0);
        self.0.changed.notify_all();
    }
}
