//! Cells of pods in many states.

use binnacle_schema::{Value, value};

use crate::table_for;
use crate::testing::{check_cells, noon};

/// Checks ready, status and restarts of a pod with three containers.
fn check(pod: Value, want: [&str; 3], why: &str) {
    let cells = (table_for("", "Pod").cells)(&pod, noon());
    let got: Vec<_> = cells[1..4].iter().map(|cell| cell.as_str().unwrap_or("not a string")).collect();
    assert_eq!(got, want, "{why}");
}

#[test]
fn prints_pods() {
    let cases = [
        (value!({}), value!(["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"])),
        (
            value!({
                "metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:59:01Z"},
                "spec": {
                    "nodeName": "n1",
                    "containers": [{"name": "c"}],
                    "readinessGates": [{"conditionType": "g1"}, {"conditionType": "g2"}, {"conditionType": "g3"}],
                },
                "status": {
                    "phase": "Running",
                    "podIP": "10.0.0.1",
                    "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                    "nominatedNodeName": "n2",
                    "conditions": [
                        {"type": "g1", "status": "False"},
                        {"type": "g1", "status": "True"},
                        {"type": "g2", "status": "True"},
                    ],
                    "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
                },
            }),
            value!(["a", "1/1", "Running", "0", "59s", "10.0.0.1", "n1", "n2", "1/3"]),
        ),
        (
            value!({"metadata": {"name": "a"}, "status": {"podIPs": [{"ip": "fd00::1"}]}}),
            value!(["a", "0/0", "", "0", "<unknown>", "fd00::1", "<none>", "<none>", "<none>"]),
        ),
    ];
    check_cells("", "Pod", cases);
}

#[test]
fn summarizes_containers() {
    let spec = || value!({"containers": [{"name": "a"}, {"name": "b"}]});
    let cases = [
        (value!({"phase": "Pending"}), ["0/2", "Pending", "0"], "nothing known yet"),
        (value!({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"], "a reason of the pod"),
        (
            value!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/2", "SchedulingGated", "0"],
            "held back from scheduling",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [
                {"ready": true, "restartCount": 2i64, "state": {"running": {}}},
                {"ready": false, "restartCount": 1i64, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]}),
            ["1/2", "CrashLoopBackOff", "3"],
            "one waits",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [
                {"state": {"waiting": {"reason": "first"}}}, {"state": {"waiting": {"reason": "second"}}},
            ]}),
            ["0/2", "first", "0"],
            "the first of several reasons",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {}, "terminated": {"exitCode": 3i64}}}]}),
            ["0/2", "ExitCode:3", "0"],
            "waits without a reason",
        ),
        (
            value!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137i64, "signal": 9i64}}}]}),
            ["0/2", "Signal:9", "0"],
            "killed by a signal",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [{"ready": true, "state": {}}, {"state": {"running": {}}}]}),
            ["0/2", "Running", "0"],
            "neither both ready and running",
        ),
        (
            value!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed"}}}, {"ready": true, "state": {"running": {}}},
            ]}),
            ["1/2", "Running", "0"],
            "one completed, the other runs and the pod is ready",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed"}}}, {"ready": true, "state": {"running": {}}},
            ]}),
            ["1/2", "NotReady", "0"],
            "one completed, the other runs and the pod is not ready",
        ),
        (
            value!({"phase": "Failed", "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed"}}},
                {"state": {"terminated": {"reason": "Error", "exitCode": 1i64}}},
            ]}),
            ["0/2", "Error", "0"],
            "one completed, the other failed",
        ),
        (
            value!({"phase": "Succeeded", "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed"}}}, {"state": {"terminated": {"reason": "Completed"}}},
            ]}),
            ["0/2", "Completed", "0"],
            "all completed",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [
                {"restartCount": 3i64, "lastState": {"terminated": {"finishedAt": "2024-03-10T11:59:50Z"}}},
                {"restartCount": 2i64, "lastState": {"terminated": {"finishedAt": "2024-03-10T11:59:20Z"}}},
            ]}),
            ["0/2", "Running", "5 (10s ago)"],
            "restarted",
        ),
        (
            value!({"phase": "Running", "containerStatuses": [
                {"restartCount": 0i64, "lastState": {"terminated": {"finishedAt": "2024-03-10T11:59:50Z"}}},
            ]}),
            ["0/2", "Running", "0"],
            "ended once, not restarted",
        ),
    ];
    for (status, want, why) in cases {
        check(Value::Object([("spec", spec()), ("status", status)].into_iter().collect()), want, why);
    }
}

#[test]
fn summarizes_init_containers() {
    let spec = || {
        value!({
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}, {"name": "j"}],
            "containers": [{"name": "c"}],
        })
    };
    let done = || value!({"name": "i", "restartCount": 4i64, "state": {"terminated": {"exitCode": 0i64}}});
    let last = "2024-03-10T11:59:30Z";
    let sidecar = || {
        value!({
            "name": "s", "started": true, "ready": true, "restartCount": 2i64, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": last}},
        })
    };
    let cases = [
        (value!([]), ["0/2", "Pending", "0"], "no status yet"),
        (value!([{"name": "i", "state": {"running": {}}}]), ["0/2", "Init:0/3", "0"], "the first runs"),
        (
            value!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]),
            ["0/2", "Init:0/3", "0"],
            "the usual wait",
        ),
        (
            value!([{"name": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
            ["0/2", "Init:ImagePullBackOff", "0"],
            "a wait with a reason",
        ),
        (
            value!([{"name": "i", "restartCount": 1i64, "state": {"terminated": {"exitCode": 2i64}}}]),
            ["0/2", "Init:ExitCode:2", "1"],
            "failed",
        ),
        (
            value!([{"name": "i", "state": {"terminated": {"exitCode": 2i64, "signal": 9i64}}}]),
            ["0/2", "Init:Signal:9", "0"],
            "killed",
        ),
        (
            value!([{"name": "i", "state": {"terminated": {"exitCode": 2i64, "reason": "Error"}}}]),
            ["0/2", "Init:Error", "0"],
            "failed with a reason",
        ),
        (
            value!([(done()), {"name": "s", "started": false, "state": {"running": {}}}]),
            ["0/2", "Init:1/3", "4"],
            "the sidecar has not started",
        ),
        (
            value!([(done()), (sidecar()), {"name": "j", "state": {"running": {}}}]),
            ["1/2", "Init:2/3", "6 (30s ago)"],
            "the sidecar is ready, the last one runs",
        ),
        (
            value!([(done()), (sidecar()), (done())]),
            ["1/2", "Pending", "2 (30s ago)"],
            "initialized: only the sidecar's restarts count",
        ),
    ];
    for (statuses, want, why) in cases {
        let status = value!({"phase": "Pending", "initContainerStatuses": (statuses)});
        check(Value::Object([("spec", spec()), ("status", status)].into_iter().collect()), want, why);
    }

    // A sidecar that fails after initialization does not count as initialization.
    let pod = value!({
        "spec": (spec()),
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [(done()), {"name": "s", "restartCount": 1i64, "state": {"terminated": {"exitCode": 1i64}}}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 1i64, "state": {"running": {}}}],
        },
    });
    check(pod, ["1/2", "Init:ExitCode:1", "2"], "initialized before");
}

#[test]
fn shows_status_of_deleted_pods() {
    let cases = [
        ("Running", "", "Terminating"),
        ("Running", "NodeLost", "Unknown"),
        ("Succeeded", "", "Succeeded"),
        ("Failed", "Evicted", "Evicted"),
        ("Failed", "NodeLost", "Unknown"),
    ];
    for (phase, reason, want) in cases {
        let pod = value!({
            "metadata": {"deletionTimestamp": "2024-03-10T11:59:30Z"},
            "status": {"phase": phase, "reason": reason},
        });
        check(pod, ["0/0", want, "0"], phase);
    }
}

#[test]
fn marks_finished_pods_as_completed() {
    let conditions = |phase: &str| {
        let pod = value!({"status": {"phase": phase}});
        Value::List((table_for("", "Pod").conditions)(&pod).iter().map(crate::RowCondition::to_value).collect())
    };
    assert_eq!(conditions("Running"), value!([]));
    assert_eq!(
        conditions("Succeeded"),
        value!([{"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."}])
    );
    assert_eq!(
        conditions("Failed"),
        value!([{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}])
    );
}
