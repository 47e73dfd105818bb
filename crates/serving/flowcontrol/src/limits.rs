//! The limits of a priority level.

/// Numbers of seats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) nominal: u32,
    pub(crate) lower: u32,
    pub(crate) upper: u32,
    pub(crate) current: u32,
    pub(crate) smoothed: f64,
}
