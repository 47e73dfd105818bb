//! Helpers for tests of cells.

use binnacle_schema::Value;

use crate::{Now, table_for};

/// 2024-03-10T12:00:00Z: the moment at which the tests print.
pub(crate) const NOON: i64 = 1_710_072_000;

pub(crate) fn check_cells(group: &str, kind: &str, cases: impl IntoIterator<Item = (Value, Value)>) {
    for (object, want) in cases {
        let got = Value::List((table_for(group, kind).cells)(&object, Now::from_unix_seconds(NOON)));
        assert_eq!(got, want, "{group} {kind} {object:?}");
    }
}
