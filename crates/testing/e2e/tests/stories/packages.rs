//! The packages that provide a server to tests in Python and JavaScript, verified by their own tests.

use std::path::Path;
use std::process::Command;

/// Runs a package's tests with the program of these tests.
fn run(folder: &str, program: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(folder);
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("BINNACLE_KUBE_APISERVER", binnacle_testkit::program().get_program());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{err}");
}

#[test]
#[cfg_attr(not(has_python), ignore = "needs python3")]
fn python_package_passes_its_tests() {
    run("python", "python3", &["-m", "unittest", "discover", "-s", "tests"]);
}

#[test]
#[cfg_attr(not(has_node), ignore = "needs node")]
fn javascript_package_passes_its_tests() {
    run("npm", "node", &["--test", "test/"]);
}
