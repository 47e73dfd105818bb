//! The second pass of mutating admission, requested by a plugin that changes an object that others have seen.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The state of one request's passes through the mutating plugins: one or two.
///
/// The second pass calls all built-in plugins again. Webhooks and policies keep the state of their first pass here, and
/// decide by it which of them to call again (`reinvocationPolicy`).
#[derive(Default)]
pub struct Reinvocation {
    second: AtomicBool,
    requested: AtomicBool,
    /// By name of plugin.
    states: Mutex<Vec<(&'static str, Box<dyn Any + Send>)>>,
}

impl Reinvocation {
    /// Returns true in the second pass.
    pub fn is_second(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }

    /// Requests a second pass; does nothing in the second pass.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Calls `f` with the state that a plugin keeps between passes, initially the default.
    pub fn with_state<T: Default + Send + 'static, R>(&self, plugin: &'static str, f: impl FnOnce(&mut T) -> R) -> R {
        let mut states = self.states.lock();
        let found = states.iter_mut().find(|(name, _)| *name == plugin).map(|(_, state)| state);
        if let Some(state) = found.and_then(|state| state.downcast_mut()) {
            return f(state);
        }
        let mut state = T::default();
        let outcome = f(&mut state);
        states.push((plugin, Box::new(state)));
        outcome
    }

    /// Begins the second pass, and returns true, if it was requested and has not begun yet.
    pub(crate) fn begin_second(&self) -> bool {
        self.requested.load(Ordering::Relaxed) && !self.second.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_pass_begins_once_if_requested() {
        let reinvocation = Reinvocation::default();
        assert!(!reinvocation.begin_second() && !reinvocation.is_second());
        reinvocation.request();
        assert!(reinvocation.begin_second() && reinvocation.is_second());
        reinvocation.request();
        assert!(!reinvocation.begin_second());
        assert_eq!(reinvocation.with_state("a", |n: &mut u32| std::mem::replace(n, 7)), 0);
        assert_eq!(reinvocation.with_state("a", |n: &mut u32| *n), 7);
        assert_eq!(reinvocation.with_state("b", |n: &mut u32| *n), 0);
    }
}
