//! The projects in `examples`, run as users run them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use binnacle_testkit::{TempDir, program};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// Runs a command in a folder, with the server of these tests.
fn run(command: &mut Command, folder: &Path) -> String {
    command.current_dir(folder).env("BINNACLE_KUBE_APISERVER", program().get_program());
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{out}{err}");
    out.into_owned()
}

/// Returns a copy of an example, which is a folder without subfolders.
fn copy(name: &str, temp: &TempDir) -> PathBuf {
    let to = temp.path().join(name);
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(root().join("examples").join(name)).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    to
}

#[test]
#[cfg_attr(not(has_pytest), ignore = "needs the packages kubernetes and pytest of Python")]
fn pytest_example_passes() {
    let temp = TempDir::new();
    let folder = copy("pytest", &temp);
    let mut command = Command::new(std::env::var_os("BINNACLE_PYTHON").unwrap_or_else(|| "python3".into()));
    // The package is used without being installed, so its plugin is specified here.
    command.args(["-m", "pytest", "-p", "binnacle_testing.pytest_plugin"]);
    command.env("PYTHONPATH", root().join("python/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    run(command.env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"), &folder);
}

#[test]
#[cfg_attr(not(has_node), ignore = "needs node")]
fn node_test_example_passes() {
    let temp = TempDir::new();
    let folder = copy("node-test", &temp);
    // Nothing else is installed.
    fs::create_dir(folder.join("node_modules")).unwrap();
    symlink(root().join("npm"), folder.join("node_modules/binnacle-testing")).unwrap();
    run(Command::new("node").arg("--test"), &folder);
}

/// Installs what the example needs, and runs its tests.
fn npm(name: &str) {
    let temp = TempDir::new();
    let folder = copy(name, &temp);
    let manifest = fs::read_to_string(folder.join("package.json")).unwrap();
    let package = format!("file:{}", root().join("npm").display());
    fs::write(folder.join("package.json"), manifest.replace("file:../../npm", &package)).unwrap();
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]), &folder);
    run(Command::new("npm").arg("test"), &folder);
}

#[test]
#[ignore = "installs packages of npm"]
fn jest_example_passes() {
    npm("jest");
}

#[test]
#[ignore = "installs packages of npm"]
fn ts_jest_example_passes() {
    npm("ts-jest");
}

#[test]
#[ignore = "installs packages of npm"]
fn vitest_example_passes() {
    npm("vitest");
}

#[test]
#[ignore = "installs packages of npm"]
fn mocha_example_passes() {
    npm("mocha");
}

/// Returns the script of a workflow's step.
fn step(workflow: &str, name: &str) -> String {
    let (_, step) = workflow.split_once(&format!("- name: {name}\n        run: |\n")).unwrap();
    let is_script = |line: &&str| line.starts_with("          ") || line.is_empty();
    step.lines().take_while(is_script).map(|line| format!("{}\n", line.trim_start())).collect()
}

/// The steps after the build, in one shell, which stops the server as a runner does at the end of a job.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn github_actions_example_passes() {
    let temp = TempDir::new();
    let folder = copy("github-actions", &temp);
    symlink(program().get_program(), folder.join("kube-apiserver")).unwrap();
    let kubectl = std::env::var_os("KUBECTL").filter(|program| Path::new(program).is_absolute());
    kubectl.iter().for_each(|program| symlink(program, folder.join("kubectl")).unwrap());
    let workflow = fs::read_to_string(folder.join("kubernetes.yml")).unwrap();
    let [start, test] = ["Start Kubernetes", "Test"].map(|name| step(&workflow, name));
    let script = format!(
        "trap 'kill $(jobs -p); wait' EXIT\nset -e\n{start}\nexport $(cat \"$GITHUB_ENV\")\n{test}\n\
         kubectl get pods --output=name\n"
    );
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env("PATH", path).env_remove("KUBECONFIG").env("HOME", &folder);
    command.env("RUNNER_TEMP", temp.path()).env("GITHUB_ENV", temp.path().join("environment"));
    assert!(run(&mut command, &folder).ends_with("pod/web\n"));
}
