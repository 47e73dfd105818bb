//! Logs, commands, copies and port forwarding with kubectl, through a kubelet that really executes them; over
//! WebSockets and SPDY.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use binnacle_testkit::{Kubectl, Kubelet, Misbehavior, Outcome, Server, wait_until_blocking};

/// Makes kubectl use SPDY, as it did before version 1.31.
const SPDY: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];

struct Cluster {
    kubelet: Kubelet,
    server: Server,
    kubectl: Kubectl,
}

impl Cluster {
    /// Starts a node with its kubelet, and a pod of one container on it.
    fn start() -> Self {
        let kubelet = Kubelet::start();
        let flags = kubelet.flags();
        let mut arguments = vec!["--ephemeral", "--secure-port=0"];
        arguments.extend(flags.iter().map(String::as_str));
        let server = Server::start(&arguments);
        let kubectl = Kubectl::new(&server);
        kubectl.ok(&["create", "serviceaccount", "default"]);
        kubectl.ok_with(&["create", "-f", "-"], r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#);
        let status = format!(
            r#"{{"status": {{"addresses": [{{"type": "InternalIP", "address": "127.0.0.1"}}],
                "daemonEndpoints": {{"kubeletEndpoint": {{"Port": {}}}}}}}}}"#,
            kubelet.port()
        );
        kubectl.ok(&["patch", "node", "n", "--subresource=status", "--type=merge", "-p", &status]);
        let cluster = Self { kubelet, server, kubectl };
        cluster.pod("p", &["c"], Some("n"));
        cluster
    }

    fn pod(&self, name: &str, containers: &[&str], node: Option<&str>) {
        let containers: Vec<_> =
            containers.iter().map(|name| serde_json::json!({"name": name, "image": "registry.test/app:1"})).collect();
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": containers, "automountServiceAccountToken": false}
        });
        self.kubectl.ok_with(&["create", "-f", "-"], &pod.to_string());
        let running = r#"{"status": {"phase": "Running"}}"#;
        self.kubectl.ok(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", running]);
    }

    fn run(&self, spdy: bool, arguments: &[&str], input: &str) -> Outcome {
        let kubectl = if spdy { self.kubectl.with_env(&SPDY) } else { self.kubectl.clone() };
        kubectl.run_with(arguments, input)
    }

    fn last_request(&self, part: &str) -> String {
        let seen = self.kubelet.seen();
        seen.into_iter().rev().find(|line| line.contains(part)).unwrap_or_else(|| panic!("nothing with {part}"))
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_reads_and_follows_logs() {
    let cluster = Cluster::start();
    let Cluster { kubelet, kubectl, .. } = &cluster;
    for line in ["one", "two", "three"] {
        kubelet.log(line);
    }
    assert_eq!(kubectl.ok(&["logs", "p"]), "one\ntwo\nthree\n");
    assert_eq!(cluster.last_request("containerLogs"), "GET /containerLogs/default/p/c");
    assert_eq!(kubectl.ok(&["logs", "p", "--tail=1", "--timestamps", "--since=5s"]), "three\n");
    assert_eq!(
        cluster.last_request("containerLogs"),
        "GET /containerLogs/default/p/c?sinceSeconds=5&tailLines=1&timestamps=true"
    );

    // Later lines arrive immediately.
    let mut follow = kubectl.spawn(&["logs", "-f", "p", "--tail=1"]);
    follow.until("three");
    kubelet.log("four");
    follow.until("four");
    kubelet.log("five");
    follow.until("five");

    cluster.pod("two", &["a", "b"], Some("n"));
    let path = "/api/v1/namespaces/default/pods/two/log";
    for (path, want) in [
        (path.to_owned(), "a container name must be specified for pod two, choose one of: [a b]"),
        (format!("{path}?container=x"), "container x is not valid for pod two"),
        (
            format!("{path}?container=a&tailLines=-1"),
            "tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("/api/v1/namespaces/default/pods/none/log".to_owned(), "pods \"none\" not found"),
    ] {
        let complaint = kubectl.fails(&["get", "--raw", &path]);
        assert!(complaint.contains(want), "{complaint}");
    }
    cluster.pod("homeless", &["c"], None);
    assert_eq!(kubectl.ok(&["logs", "homeless"]), "");
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_executes_commands() {
    let cluster = Cluster::start();
    let big = "0123456789abcdef".repeat(64 * 1024);
    for spdy in [false, true] {
        let run = |arguments: &[&str], input: &str| {
            let mut all = vec!["exec"];
            all.extend_from_slice(arguments);
            cluster.run(spdy, &all, input)
        };
        let outcome = run(&["p", "--", "sh", "-c", "echo out; echo err >&2"], "");
        assert!(outcome.success, "{outcome}");
        assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("out\n", "err\n"));
        let request = cluster.last_request("/exec/");
        let query = "command=sh&command=-c&command=echo+out%3B+echo+err+%3E%262&error=1&output=1";
        assert_eq!(request, format!("POST /exec/default/p/c?{query}"));

        let outcome = run(&["p", "--", "sh", "-c", "exit 3"], "");
        assert!(!outcome.success && outcome.err.contains("command terminated with exit code 3"), "{outcome}");
        let outcome = run(&["p", "--", "no-such-command"], "");
        assert!(!outcome.success && outcome.err.contains("No such file or directory"), "{outcome}");

        // The end of input ends the command; a megabyte is echoed completely.
        let outcome = run(&["-i", "p", "--", "cat"], &big);
        assert!(outcome.success && outcome.out == big, "{} bytes came back: {}", outcome.out.len(), outcome.err);
        let outcome = run(&["-it", "p", "--", "sh", "-c", "read line; echo \"<$line>\""], "hello\n");
        assert!(outcome.success && outcome.out.contains("<hello>"), "{outcome}");
    }
    cluster.pod("homeless", &["c"], None);
    let complaint = cluster.kubectl.fails(&["exec", "homeless", "--", "ls"]);
    assert!(complaint.contains("pod homeless does not have a host assigned"), "{complaint}");
    let path = "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=1";
    assert!(cluster.kubectl.fails(&["get", "--raw", path]).contains("Upgrade request required"));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_attaches_to_containers() {
    let cluster = Cluster::start();
    for spdy in [false, true] {
        let outcome = cluster.run(spdy, &["attach", "-i", "p"], "said and heard\n");
        assert!(outcome.success && outcome.out.contains("said and heard"), "{outcome}");
        assert_eq!(cluster.last_request("/attach/"), "POST /attach/default/p/c?error=1&input=1&output=1");
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_copies_files_both_ways() {
    let cluster = Cluster::start();
    let contents = "all of it\n".repeat(20_000);
    let here = cluster.server.temp().file("here.txt", &contents);
    let back = cluster.server.temp().path().join("back.txt");
    let there = cluster.kubelet.directory().join("there.txt");
    for spdy in [false, true] {
        let copy = |from: &str, to: &str| {
            let outcome = cluster.run(spdy, &["cp", from, to], "");
            assert!(outcome.success, "{outcome}");
        };
        let pod = format!("p:{}", there.display());
        copy(&here, &pod);
        assert_eq!(std::fs::read_to_string(&there).unwrap(), contents);
        copy(&pod, &back.display().to_string());
        assert_eq!(std::fs::read_to_string(&back).unwrap(), contents);
        std::fs::remove_file(&there).unwrap();
        std::fs::remove_file(&back).unwrap();
    }
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_forwards_ports() {
    let cluster = Cluster::start();
    // Echoes its input until that ends.
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in echo.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let mut from = connection.try_clone().unwrap();
                std::io::copy(&mut from, &mut connection)
            });
        }
    });
    let big = vec![b'x'; 300_000];
    for spdy in [false, true] {
        let kubectl = if spdy { cluster.kubectl.with_env(&SPDY) } else { cluster.kubectl.clone() };
        let mut forward = kubectl.spawn(&["port-forward", "p", &format!(":{port}")]);
        let line = forward.until("Forwarding from 127.0.0.1:");
        let local: u16 = line.split([':', ' ']).find_map(|word| word.parse().ok()).unwrap();
        let mut connections: Vec<_> = (0..3).map(|_| TcpStream::connect(("127.0.0.1", local)).unwrap()).collect();
        for (n, connection) in connections.iter_mut().enumerate() {
            connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let message = format!("message {n}");
            connection.write_all(message.as_bytes()).unwrap();
            let mut answer = vec![0; message.len()];
            connection.read_exact(&mut answer).unwrap();
            assert_eq!(answer, message.as_bytes());
        }
        let mut writer = connections[0].try_clone().unwrap();
        let sent = big.clone();
        let writing = std::thread::spawn(move || writer.write_all(&sent));
        let mut answer = vec![0; big.len()];
        connections[0].read_exact(&mut answer).unwrap();
        writing.join().unwrap().unwrap();
        assert!(answer == big);
    }
    assert!(cluster.last_request("/portForward/").starts_with("POST /portForward/default/p"));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn reports_errors_of_kubelets() {
    let cluster = Cluster::start();
    let Cluster { kubelet, kubectl, .. } = &cluster;
    let troubles = [
        ("refuses", Misbehavior::Refuses(400, "not that one")),
        ("broken", Misbehavior::Refuses(500, "out of order")),
        ("redirects", Misbehavior::Redirects("http://169.254.169.254/latest")),
        ("hangs-up", Misbehavior::HangsUp),
        ("lies", Misbehavior::Lies),
        ("breaks-off", Misbehavior::BreaksOff),
    ];
    for (pod, trouble) in troubles {
        cluster.pod(pod, &["c"], Some("n"));
        kubelet.trouble(pod, trouble);
    }
    for (pod, want) in [
        ("refuses", "not that one"),
        ("broken", "Internal error occurred: out of order"),
        ("redirects", "Get \"http://169.254.169.254/latest\": redirects forbidden"),
        ("hangs-up", "EOF"),
    ] {
        let complaint = kubectl.fails(&["logs", pod]);
        assert!(complaint.contains(want), "{pod}: {complaint}");
    }
    // The received output is shown, even if more was announced.
    assert_eq!(kubectl.ok(&["logs", "lies"]), "half");
    for (spdy, pod, want) in [
        (false, "refuses", "unable to upgrade connection: not that one"),
        (false, "redirects", "redirect not allowed"),
        (false, "hangs-up", "EOF"),
        (false, "breaks-off", "unexpected EOF"),
        (true, "refuses", "not that one"),
        (true, "redirects", "invalid upgrade response: status code 302"),
        (true, "hangs-up", "EOF"),
    ] {
        let outcome = cluster.run(spdy, &["exec", pod, "--", "sh", "-c", "echo out; exec sleep 60"], "");
        assert!(!outcome.success && outcome.err.contains(want), "{pod} {spdy}: {outcome}");
    }

    // No kubelet listens on this port.
    let status = r#"{"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}"#;
    kubectl.ok(&["patch", "node", "n", "--subresource=status", "--type=merge", "-p", status]);
    let complaint = kubectl.fails(&["logs", "p"]);
    let want =
        "Get \"https://127.0.0.1:1/containerLogs/default/p/c\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert!(complaint.contains(want), "{complaint}");
    let outcome = cluster.run(true, &["exec", "p", "--", "ls"], "");
    assert!(outcome.err.contains("error dialing backend: dial tcp 127.0.0.1:1"), "{outcome}");
    let status = r#"{"status": {"addresses": null}}"#;
    kubectl.ok(&["patch", "node", "n", "--subresource=status", "--type=merge", "-p", status]);
    assert!(kubectl.fails(&["logs", "p"]).contains("no preferred addresses found; known addresses: []"));
    kubectl.ok(&["delete", "node", "n"]);
    assert!(kubectl.fails(&["logs", "p"]).contains("pods \"n\" not found"));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn closes_streams_when_either_side_ends() {
    let mut cluster = Cluster::start();
    cluster.pod("hangs", &["c"], Some("n"));
    cluster.kubelet.trouble("hangs", Misbehavior::Hangs);
    for spdy in [false, true] {
        let kubectl = if spdy { cluster.kubectl.with_env(&SPDY) } else { cluster.kubectl.clone() };
        let gone = |kubelet: &Kubelet| kubelet.seen().iter().filter(|line| *line == "client gone").count();
        let before = gone(&cluster.kubelet);
        let mut session = kubectl.spawn(&["exec", "p", "--", "sh", "-c", "echo ready; exec sleep 600"]);
        session.until("ready");
        drop(session);
        wait_until_blocking("the command ends with its client", || (gone(&cluster.kubelet) > before).then_some(()));
    }
    let mut sessions: Vec<_> = [
        cluster.kubectl.spawn(&["exec", "p", "--", "sh", "-c", "echo ready; exec sleep 600"]),
        cluster.kubectl.with_env(&SPDY).spawn(&["exec", "p", "--", "sh", "-c", "echo ready; exec sleep 600"]),
        cluster.kubectl.spawn(&["logs", "-f", "p"]),
    ]
    .into();
    cluster.kubelet.log("ready");
    sessions.iter_mut().for_each(|session| drop(session.until("ready")));
    let _waiting = cluster.kubectl.spawn(&["logs", "hangs"]);
    wait_until_blocking("the kubelet hangs", || {
        cluster.kubelet.seen().iter().any(|line| line.contains("/hangs/")).then_some(())
    });
    let took = cluster.server.terminate();
    assert!(took < Duration::from_secs(5), "{took:?}");
    sessions.into_iter().for_each(|session| drop(session.end()));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn proxies_to_pods_services_and_nodes() {
    let cluster = Cluster::start();
    let kubectl = &cluster.kubectl;
    let local = r#"{"status": {"podIPs": [{"ip": "169.254.169.254"}], "podIP": "169.254.169.254"}}"#;
    kubectl.ok(&["patch", "pod", "p", "--subresource=status", "--type=merge", "-p", local]);
    kubectl.ok(&["create", "service", "clusterip", "s", "--tcp=80:8080"]);
    let core = "/api/v1/namespaces/default";
    for (path, want) in [
        (format!("{core}/pods/p/proxy/"), "address not allowed"),
        (format!("{core}/pods/https:p:443/proxy/latest"), "address not allowed"),
        (format!("{core}/pods/none:80/proxy/"), "pods \"none\" not found"),
        (format!("{core}/pods/ftp:p:1/proxy/"), "invalid pod request \"ftp:p:1\""),
        ("/api/v1/nodes/n/proxy/metrics".to_owned(), "address not allowed"),
        ("/api/v1/nodes/n:8080/proxy/".to_owned(), "address not allowed"),
        ("/api/v1/nodes/none/proxy/".to_owned(), "nodes \"none\" not found"),
        (format!("{core}/services/s/proxy/"), "services \"s\" not found"),
        (format!("{core}/services/s:81/proxy/"), "no service port 81 found for service \"s\""),
        (format!("{core}/services/a:b:c:d/proxy/"), "invalid service request \"a:b:c:d\""),
    ] {
        let complaint = kubectl.fails(&["get", "--raw", &path]);
        assert!(complaint.contains(want), "{path}: {complaint}");
    }
    // Endpoints that are not the address of a pod are not dialed.
    let endpoints = r#"{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}, "subsets": [
        {"addresses": [{"ip": "10.1.2.3", "targetRef": {"kind": "Pod", "namespace": "default", "name": "p"}}],
         "ports": [{"name": "80-8080", "port": 8080}]}]}"#;
    kubectl.ok_with(&["create", "-f", "-"], endpoints);
    for id in ["s:80-8080", "s:80", "s:none"] {
        let complaint = kubectl.fails(&["get", "--raw", &format!("{core}/services/{id}/proxy/")]);
        assert!(complaint.contains(&format!("no endpoints available for service \"{id}\"")), "{complaint}");
    }

    // `kubectl proxy`, in front of the whole server.
    let mut proxy = kubectl.spawn(&["proxy", "--port=0"]);
    let line = proxy.until("Starting to serve on ");
    let mut connection = TcpStream::connect(line.trim_start_matches("Starting to serve on ")).unwrap();
    connection.write_all(b"GET /api/v1/namespaces/default/pods/p HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"name\":\"p\""), "{answer}");
}
