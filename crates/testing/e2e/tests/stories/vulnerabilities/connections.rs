//! Vulnerabilities to denial of service by clients, most of them without credentials: of seats, CPU time, descriptors.
//! Each is measured by its effect on another client.

use std::time::{Duration, Instant};

use binnacle_testkit::frames::{
    DATA, Frame, Frames, GOAWAY, HEADERS, INITIAL_WINDOW, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Server, TIMEOUT, TempDir};
use serde_json::json;
use tokio::net::TcpStream;

use crate::authorization::{Rig, until};

const LONGEST: Duration = Duration::from_secs(5);

fn nobody(server: &Server) -> Handshake {
    Handshake::new(server.admin().authority)
}

/// Checks that another client is served soon; on a test machine with other tests the limit is higher than for users.
async fn others_are_served(server: &Server) {
    let began = Instant::now();
    let mut client = server.client().await;
    let answer = client.get("/api/v1/namespaces/default").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(server.connect(&nobody(server)).await.get("/livez").await.unwrap().body, "ok");
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
}

/// Returns the used seats in all priority levels, without that of this request.
async fn seats(server: &Server) -> f64 {
    let metrics = server.client().await.get("/metrics").await.unwrap().body;
    let seats = metrics.lines().filter(|line| line.starts_with("apiserver_flowcontrol_current_executing_seats{"));
    let others = seats.filter(|line| !line.contains("priority_level=\"exempt\""));
    others.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// CVE-2019-9511, CVE-2019-9517: responses that are requested and not read, or read one byte at a time.
#[tokio::test(flavor = "multi_thread")]
async fn closes_connections_with_unread_responses() {
    let mut server = Server::start(&["--ephemeral", "--request-timeout=4s"]);
    let mut attackers = Vec::new();
    for (handshake, window) in [(nobody(&server), 0), (nobody(&server), 1), (server.admin(), 0), (server.admin(), 1)] {
        let mut frames = Frames::connect(server.address, &handshake, &[(INITIAL_WINDOW, window)]).await;
        for stream in 0..100 {
            // Unauthenticated connections are closed after the first response.
            let _ = frames.send(&Frame::request(2 * stream + 1, "GET", "/version", &[], true)).await;
        }
        attackers.push(frames);
    }
    let mut reading = Vec::new();
    for mut frames in attackers {
        reading.push(tokio::spawn(async move {
            // Pings are answered meanwhile.
            let (mut left, mut reset, mut data) = (false, 0, 0);
            let until_ended = async {
                while let Some(frame) = frames.next_answering().await {
                    left |= frame.kind == GOAWAY;
                    data += usize::from(frame.kind == DATA) * frame.payload.len();
                    reset += usize::from(frame.kind == RST_STREAM);
                    if reset == 100 {
                        break;
                    }
                }
            };
            tokio::time::timeout(TIMEOUT, until_ended).await.expect("the streams or the connection end");
            (left, reset, data)
        }));
    }
    until("no seat is held for who does not read", async || seats(&server).await == 0.0).await;
    others_are_served(&server).await;
    for (at, read) in reading.into_iter().enumerate() {
        let (left, reset, data) = read.await.unwrap();
        assert!(left || reset == 100, "{at}: {reset} streams were given up");
        assert!(data <= 100, "{at}: {data}");
    }
    // The shutdown waits for none of them.
    let mut unread = Frames::connect(server.address, &server.admin(), &[(INITIAL_WINDOW, 0)]).await;
    unread.send(&Frame::request(1, "GET", "/version", &[], true)).await.unwrap();
    while unread.next_answering().await.unwrap().kind != HEADERS {}
    let keeps = tokio::spawn(async move { unread.rest().await });
    let took = tokio::task::block_in_place(|| server.terminate());
    assert!(took < LONGEST, "{took:?}");
    keeps.await.unwrap();
}

/// CVE-2019-9512, CVE-2019-9515, CVE-2019-9518: frames that cause work and carry no data.
#[tokio::test(flavor = "multi_thread")]
async fn closes_connections_that_flood_frames() {
    let server = Server::ephemeral();
    for (name, frame) in [
        ("pings", Frame::new(PING, 0, 0, &[0; 8])),
        ("settings", Frame::new(SETTINGS, 0, 0, &[])),
        ("windows", Frame::new(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown", Frame::new(200, 0, 0, &[0; 16])),
    ] {
        let frames = Frames::connect(server.address, &nobody(&server), &[]).await;
        assert!(frames.flood(&frame.bytes().repeat(1000), 1000).await, "{name}");
    }
    let mut frames = Frames::connect(server.address, &server.admin(), &[]).await;
    frames.send(&Frame::request(1, "POST", "/api/v1/namespaces", &[], false)).await.unwrap();
    assert!(frames.flood(&Frame::new(DATA, 0, 1, &[]).bytes().repeat(1000), 1000).await, "empty data");
    others_are_served(&server).await;
    // None of this fills the log.
    let log = server.log();
    assert!(log.lines().count() < 20, "{log}");
}

/// Sends chunks that contain one request each, with time to process it, until the connection ends. Returns true if it
/// does.
async fn ends(frames: &mut Frames, most: u32, piece: impl Fn(u32) -> Vec<u8>) -> bool {
    for n in 0..most {
        if frames.write(&piece(2 * n + 1)).await.is_err() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(TIMEOUT, frames.rest()).await.is_ok()
}

/// CVE-2023-44487, CVE-2023-39325: streams that are opened and reset, so that there is never a response after which the
/// connection would be closed.
#[tokio::test(flavor = "multi_thread")]
async fn limits_rapid_resets_by_the_client() {
    let server = Server::ephemeral();
    for (handshake, most) in [(nobody(&server), 200), (server.admin(), 20_000)] {
        let mut frames = Frames::connect(server.address, &handshake, &[]).await;
        let begun_and_reset = |stream| {
            let mut both = Frame::request(stream, "GET", "/api/v1/namespaces?watch=1", &[], true).bytes();
            both.extend(Frame::new(RST_STREAM, 0, stream, &8u32.to_be_bytes()).bytes());
            both
        };
        assert!(ends(&mut frames, most, begun_and_reset).await, "{most}");
    }
    others_are_served(&server).await;
}

/// CVE-2025-8671: streams that the server resets because of the client, which do not count as client resets.
#[tokio::test(flavor = "multi_thread")]
async fn limits_resets_by_the_server() {
    let server = Server::ephemeral();
    let mut frames = Frames::connect(server.address, &server.admin(), &[]).await;
    let with_too_large_a_window = |stream| {
        let mut both = Frame::request(stream, "GET", "/api/v1/namespaces?watch=1", &[], true).bytes();
        both.extend(Frame::new(WINDOW_UPDATE, 0, stream, &0x7fff_ffffu32.to_be_bytes()).bytes());
        both
    };
    assert!(ends(&mut frames, 5_000, with_too_large_a_window).await);
    others_are_served(&server).await;
}

/// Idle connections do not exhaust the file descriptors that the store needs.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_exhaust_descriptors() {
    let server = Server::short_of_descriptors(128, &[]);
    let mut idle = Vec::new();
    for n in 0..300u32 {
        // Some are rejected, or closed immediately.
        idle.extend(TcpStream::connect(server.address).await);
        if n % 30 == 0 {
            others_are_served(&server).await;
            let object = json!({"metadata": {"name": format!("c-{n}")}, "data": {"a": "x".repeat(100_000)}});
            let mut client = server.client().await;
            let headers = [("content-type", "application/json")];
            let path = "/api/v1/namespaces/default/configmaps";
            let made = client.send("POST", path, &headers, object.to_string()).await.unwrap();
            assert_eq!(made.status, 201, "{}", made.body);
        }
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    assert!(open < 110, "{open}");
    let log = server.log();
    assert!(log.lines().count() < 20, "{log}");
}

/// CVE-2022-1996: an origin with an allowed one as prefix or suffix.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_origins_that_extend_an_allowed_one() {
    let server = Server::start(&["--ephemeral", "--cors-allowed-origins=//good\\.example(:|$)"]);
    for (origin, allowed) in [
        ("https://good.example", true),
        ("https://good.example:8443", true),
        ("https://good.example.evil.example", false),
        ("https://evilgood.example", false),
        ("https://good-example", false),
    ] {
        let mut client = server.client().await;
        let answer = client.send("GET", "/version", &[("origin", origin)], "").await.unwrap();
        assert_eq!(answer.header("access-control-allow-origin") == origin, allowed, "{origin}");
    }
}

/// Failed logins are not logged one by one, and their connections are closed.
#[tokio::test(flavor = "multi_thread")]
async fn failed_logins_do_not_fill_the_log() {
    let rig = Rig::start(TempDir::new(), &[]);
    let handshake = nobody(&rig.server).alpn(&["http/1.1"]);
    let began = Instant::now();
    for _ in 0..20 {
        let mut client = rig.server.connect(&handshake).await;
        let mut answers = 0;
        while let Ok(answer) = client.send("GET", "/api", &[("authorization", "Bearer wrong")], "").await {
            assert_eq!(answer.status, 401);
            answers += 1;
        }
        assert_eq!(answers, 10);
    }
    let lines = rig.server.log().lines().filter(|line| line.contains("Unable to authenticate")).count();
    assert!(lines as u64 <= 2 + began.elapsed().as_secs(), "{lines} lines");
}
