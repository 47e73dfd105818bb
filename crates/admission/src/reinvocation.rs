//! The second pass of mutating admission: a plugin that changed an object after others have seen it may ask for one.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// One request's pass, or both of its passes, through the mutating plugins.
///
/// The built-in plugins are all called again. Webhooks and policies keep here the state of their first pass, by which
/// they decide which of them are called again (`reinvocationPolicy`).
#[derive(Default)]
pub struct Reinvocation {
    second: AtomicBool,
    requested: AtomicBool,
    /// By the name of the plugin.
    states: Mutex<Vec<(&'static str, Box<dyn Any + Send>)>>,
}

impl Reinvocation {
    /// True in the second pass.
    pub fn is_second(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }

    /// Requests a second pass. There is no third.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Calls `use_it` with the state that a plugin keeps from pass to pass, empty in the beginning.
    pub fn with_state<T: Default + Send + 'static, R>(
        &self,
        plugin: &'static str,
        use_it: impl FnOnce(&mut T) -> R,
    ) -> R {
        let mut states = self.states.lock();
        let found = states.iter_mut().find(|(name, _)| *name == plugin).map(|(_, state)| state);
        if let Some(state) = found.and_then(|state| state.downcast_mut()) {
            return use_it(state);
        }
        let mut state = T::default();
        let outcome = use_it(&mut state);
        states.push((plugin, Box::new(state)));
        outcome
    }

    /// Begins the second pass if one was asked for and has not begun yet.
    pub(crate) fn begin_second(&self) -> bool {
        self.requested.load(Ordering::Relaxed) && !self.second.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes() {
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
