//! The node.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::node::v1::RuntimeClass;

use crate::columns::{Columns, Kind, cells, string, text};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("RuntimeClass", &RUNTIME_CLASS)];

/// The handler's column takes its description from a field of the metadata that does not exist, so it is empty.
const RUNTIME_CLASS: Columns = Columns::new(&[NAME, string("Handler", text("")), AGE], |object, now| {
    let class = FieldRef::<RuntimeClass>::root(object);
    cells![name(class), class.at(RuntimeClass::HANDLER).str(), created(class, now)]
});

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_runtime_classes() {
        let cases = [
            (value!({}), value!(["", "", "<unknown>"])),
            (value!({"metadata": {"name": "a"}, "handler": "runsc"}), value!(["a", "runsc", "<unknown>"])),
        ];
        check_cells("node.k8s.io", "RuntimeClass", cases);
    }
}
