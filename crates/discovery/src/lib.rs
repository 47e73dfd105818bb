//! Discovery documents computed from the resource descriptions.
