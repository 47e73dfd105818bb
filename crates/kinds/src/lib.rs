//! The built-in kinds: field tables, computed defaults, validation, what create and update reset.
