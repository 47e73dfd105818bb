//! A network namespace for a test, with an address that is neither loopback nor used by others.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use binnacle_test_requirements::Ability;

/// Two addresses of pods, which are reachable only within [`in_own_network`].
pub const POD_IPS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 231, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 231, 0, 2))];

const INSIDE: &str = "BINNACLE_TEST_NETWORK";

/// Runs the calling test again in a network namespace, which ends with it and needs no privileges if users may make
/// namespaces. Returns true inside, where the test continues. Outside, returns false after the test, and fails if that
/// did; without namespaces, prints a message and skips the test. `test` is the path of the function.
#[must_use]
pub fn in_own_network(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let addresses = POD_IPS.map(|ip| format!("ip addr add {ip}/32 dev lo")).join(" && ");
    let prepare = format!("ip link set lo up && {addresses}");
    let namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", script, "sh"]).stdin(Stdio::null());
        command
    };
    let possible = namespace(&prepare).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        Ability::Namespaces.is_missing("no network namespace can be made here");
        return false;
    }
    let mut command = namespace(&format!("{prepare} && exec \"$@\""));
    command.arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let status = command.status().unwrap();
    assert!(status.success(), "inside of the namespace: {status}");
    false
}
