//! The example for Tilt (`examples/tilt`): its Tiltfile is evaluated with stand-ins for Tilt's functions, and the
//! commands are run as Tilt runs them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use binnacle_testkit::{Port, TempDir, program, wait_until_blocking};
use serde_json::Value;

use crate::documents::path;

/// Evaluates a Tiltfile, whose language is a part of Python's, and prints its resources.
const EVALUATE: &str = r#"
import json, os, sys
resources = {}
def local_resource(name, cmd="", deps=(), trigger_mode=None, resource_deps=(), ignore=(), auto_init=True, serve_cmd="",
                   readiness_probe=None, serve_env=None, labels=()):
    assert all(dep in resources for dep in resource_deps), resource_deps
    assert all(os.path.exists(dep) for dep in deps), deps
    resources[name] = {"cmd": cmd, "serve_cmd": serve_cmd, "serve_env": serve_env or {}, "probe": readiness_probe}
def http_get_action(port, host="localhost", scheme="http", path="/"):
    return {"port": port, "host": host, "scheme": scheme, "path": path}
def probe(initial_delay_secs=0, timeout_secs=1, period_secs=10, http_get=None):
    return http_get
names = {"local_resource": local_resource, "http_get_action": http_get_action, "probe": probe, "os": os,
         "TRIGGER_MODE_MANUAL": 1}
exec(compile(open("Tiltfile").read(), "Tiltfile", "exec"), names)
print(json.dumps(resources))
"#;

/// A command that Tilt keeps running, which ends when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command of the Tiltfile, in its folder. The shell is replaced by the last command of the text.
fn shell(command: &str, folder: &Path) -> Command {
    let mut shell = Command::new("sh");
    let programs = program().get_program().to_owned();
    let programs = Path::new(&programs).parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    shell.args(["-c", &format!("exec {command}")]).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    shell
}

#[test]
#[cfg_attr(not(all(has_python, has_kubectl)), ignore = "needs python3 and kubectl")]
fn tiltfile_starts_a_server_and_a_controller() {
    let temp = TempDir::new();
    let folder = temp.path().join("tilt");
    let copied = Command::new("cp").arg("-r").arg(path("examples/tilt")).arg(&folder).status().unwrap();
    assert!(copied.success());
    let evaluated = Command::new("python3").args(["-c", EVALUATE]).current_dir(&folder).output().unwrap();
    assert!(evaluated.status.success(), "{evaluated:?}");
    let resources: Value = serde_json::from_slice(&evaluated.stdout).unwrap();
    let command = |name: &str, kind: &str| resources[name][kind].as_str().unwrap().to_owned();

    let port = Port::claim();
    let probe = &resources["kube-apiserver"]["probe"];
    assert_eq!((&probe["port"], &probe["path"]), (&Value::from(6443), &Value::from("/readyz")));
    let serve = command("kube-apiserver", "serve_cmd");
    let serve = serve.replace("--secure-port=6443", &format!("--secure-port={}", port.number()));
    let _server = Process(shell(&serve, &folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let kubeconfig = folder.join(".binnacle/admin.kubeconfig");
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        kubectl.arg("--kubeconfig").arg(&kubeconfig).args(arguments).output().unwrap()
    };
    wait_until_blocking("the server is ready", || kubectl(&["get", "--raw", "/readyz"]).status.success().then_some(()));

    let definitions = shell(&command("definitions", "cmd"), &folder).output().unwrap();
    assert!(definitions.status.success(), "{definitions:?}");
    let mut controller = shell(&command("controller", "serve_cmd"), &folder);
    for (name, value) in resources["controller"]["serve_env"].as_object().unwrap() {
        controller.env(name, value.as_str().unwrap());
    }
    let _controller = Process(controller.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let boat = temp.file(
        "boat.yaml",
        "apiVersion: harbor.example/v1\nkind: Boat\nmetadata: {name: gull, namespace: default}\nspec: {length: 45}\n",
    );
    let created = wait_until_blocking("boats are served", || {
        Some(kubectl(&["apply", "-f", &boat])).filter(|output| output.status.success())
    });
    assert!(created.status.success());
    wait_until_blocking("the controller gives the boat a berth", || {
        let berth = kubectl(&["get", "boat", "gull", "--output=jsonpath={.status.berth}"]);
        (berth.stdout == b"quay-2").then_some(())
    });
}
