//! The test that man pages and completions in `packaging/manual` follow from the command line.

use binnacle_cli::manual::Paragraph::{Example, Item, Text};
use binnacle_cli::manual::Section;

const SECTIONS: [Section; 3] = [
    (
        "EXIT STATUS",
        &[
            Item("0", "Success."),
            Item("1", "A problem was found, or the command failed."),
            Item("2", "The command line is invalid."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            Text("Back up the store of a running server, and restore it to a new data directory:"),
            Example("binnacle backup embedded:/var/lib/binnacle /backups/monday"),
            Example("binnacle restore /backups/monday /var/lib/binnacle-new"),
            Text("Check before an adoption whether the server can serve the objects in an etcd cluster:"),
            Example("binnacle doctor etcd:https://10.0.0.1:2379 --etcd-cafile ca.crt"),
            Text("Compare the answers of two servers of one etcd to the requests in an audit log:"),
            Example(
                "binnacle compare --from audit.log --same-store --html report.html https://10.0.0.1:6443 https://10.0.0.2:6443",
            ),
        ],
    ),
    ("SEE ALSO", &[Text("kube-apiserver(8)")]),
];

#[test]
fn manual_matches_command_line() {
    binnacle_cli::manual::compare(&crate::cli::command(), &SECTIONS);
}
