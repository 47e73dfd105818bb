//! Reinvocation: the second pass of mutating admission, which a plugin requests when it changes an object after other
//! plugins.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The state of a request's one or two passes through the mutating plugins.
///
/// The second pass calls all built-in plugins again. The plugins for webhooks and policies store the state of the first
/// pass here, which determines which webhooks and policies are reinvoked (`reinvocationPolicy`).
#[derive(Default)]
pub struct Reinvocation {
    second: AtomicBool,
    requested: AtomicBool,
    /// By plugin name.
    states: Mutex<Vec<(&'static str, Box<dyn Any + Send>)>>,
}

impl Reinvocation {
    /// Returns true in the second pass.
    pub fn is_second(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }

    /// Requests a second pass. Does nothing in the second pass.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Calls `f` with the plugin's state, which is kept between passes and initially the default.
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

    /// Starts the second pass and returns true if it was requested and has not been started yet.
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
