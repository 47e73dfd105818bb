//! Helpers for tests of cells.

use binnacle_schema::Value;

use crate::{Now, table_for};

/// Returns the time at which the tests print: 2024-03-10T12:00:00Z.
pub(crate) fn noon() -> Now {
    Now::from_unix(1_710_072_000, 0)
}

pub(crate) fn check_cells(group: &str, kind: &str, cases: impl IntoIterator<Item = (Value, Value)>) {
    for (object, want) in cases {
        let got = Value::List((table_for(group, kind).cells)(&object, noon()));
        assert_eq!(got, want, "{group} {kind} {object:?}");
    }
}
