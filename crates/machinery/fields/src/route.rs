//! Paths of several fields, for tables of fields.

use std::marker::PhantomData;

use binnacle_meta::FieldPath;

use crate::Field;
use crate::types::Contains;

/// A path of fields from the message `M` downwards, such as `route![Pod::SPEC, PodSpec::CONTAINERS, Container::IMAGE]`.
/// It traverses each item of a list and each value of a map.
pub struct Route<M> {
    steps: &'static [Step],
    marker: PhantomData<fn() -> M>,
}

/// A field of a [`Route`].
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The JSON name.
    pub name: &'static str,
    /// True if the next step is in each item or value of this field.
    pub repeated: bool,
}

impl<M> Route<M> {
    /// Use [`route!`](crate::route), which checks that each field is in the message of the field before it.
    #[doc(hidden)]
    pub const fn new<T>(_: Field<M, T>, steps: &'static [Step]) -> Self {
        Self { steps, marker: PhantomData }
    }

    pub const fn steps(&self) -> &'static [Step] {
        self.steps
    }

    /// Returns the JSON names of the fields.
    pub fn names(&self) -> Vec<&'static str> {
        self.steps.iter().map(|step| step.name).collect()
    }

    /// Returns the path in errors of a route without lists.
    pub fn path(&self) -> FieldPath {
        self.steps.iter().fold(FieldPath::root(), |path, step| path.child(step.name))
    }
}

impl<M> Clone for Route<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Route<M> {}

impl<M, T> Field<M, T> {
    /// Returns the step to this field, which continues to a field of `N`.
    #[doc(hidden)]
    pub const fn step_to<N, U>(&self, _: Field<N, U>) -> Step
    where
        T: Contains<N>,
    {
        Step { name: self.name(), repeated: T::REPEATED }
    }

    /// Returns the last step of a route.
    #[doc(hidden)]
    pub const fn last_step(&self) -> Step {
        Step { name: self.name(), repeated: false }
    }
}

/// Builds a [`Route`] as a constant.
#[macro_export]
macro_rules! route {
    ($first:expr $(, $rest:expr)* $(,)?) => {{
        const STEPS: &[$crate::Step] = $crate::route!(@steps [] $first $(, $rest)*);
        $crate::Route::new($first, STEPS)
    }};
    (@steps [$($done:expr),*] $last:expr) => { &[$($done,)* $last.last_step()] };
    (@steps [$($done:expr),*] $this:expr, $next:expr $(, $rest:expr)*) => {
        $crate::route!(@steps [$($done,)* $this.step_to($next)] $next $(, $rest)*)
    };
}

#[cfg(test)]
mod tests {
    use crate::core::v1::{Container, Pod, PodSpec};

    #[test]
    fn routes_traverse_lists() {
        let route = route![Pod::SPEC, PodSpec::CONTAINERS, Container::IMAGE];
        let steps: Vec<_> = route.steps().iter().map(|step| (step.name, step.repeated)).collect();
        assert_eq!(steps, [("spec", false), ("containers", true), ("image", false)]);
        assert_eq!(route.names(), ["spec", "containers", "image"]);
        assert_eq!(route![Pod::SPEC, PodSpec::HOST_NETWORK].path().to_string(), "spec.hostNetwork");
    }
}
