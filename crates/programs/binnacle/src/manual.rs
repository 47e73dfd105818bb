//! The test that man pages and completions in `packaging/manual` follow from the command line.

use binnacle_cli::manual::Paragraph::{Example, Item, Text};
use binnacle_cli::manual::Section;

const SECTIONS: [Section; 3] = [
    (
        "EXIT STATUS",
        &[
            Item("0", "All is well."),
            Item("1", "Something was found, or could not be done."),
            Item("2", "The command line is wrong."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Text("Save the store of a running server, and make a new data directory from the file:"),
            Example("binnacle backup embedded:/var/lib/binnacle /backups/monday"),
            Example("binnacle restore /backups/monday /var/lib/binnacle-new"),
            Text("Ask beforehand whether the objects in an etcd can be served:"),
            Example("binnacle doctor etcd:https://10.0.0.1:2379 --etcd-cafile ca.crt"),
        ],
    ),
    ("SEE ALSO", &[Text("kube-apiserver(8)")]),
];

#[test]
fn manual_matches_command_line() {
    binnacle_cli::manual::compare(&crate::cli::command(), &SECTIONS);
}
