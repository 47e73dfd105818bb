//! Clients cannot make the metrics grow: names that they invent do not become label values.

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Server, wait_until};

/// The number of requests of each of the two rounds.
const REQUESTS: u64 = 5_000;
/// The number of lines that a round may add after the first: combinations of known label values that did not occur yet.
const SPARE: usize = 1_500;

/// A small generator of numbers, the same for each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn word(&mut self) -> String {
        (0..8).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz"[(self.next() % 26) as usize])).collect()
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[(self.next() % choices.len() as u64) as usize]
    }

    fn path(&mut self) -> String {
        let resource = match self.next() % 6 {
            0 => self.word(),
            _ => self.of(&["pods", "configmaps", "nodes", "services", "secrets"]).to_owned(),
        };
        let [a, b, c] = [self.word(), self.word(), self.word()];
        match self.next() % 20 {
            0 => format!("/api/v1/namespaces/default/{resource}/{a}/{b}"),
            1 => format!("/apis/{a}.example/v1/{b}"),
            2 => format!("/apis/apps/{a}/deployments"),
            3 => format!("/api/v1/{a}"),
            4 => format!("/{a}/{b}"),
            5 => format!("/api/v1/namespaces/{a}/{resource}"),
            6 => format!("/healthz/{a}"),
            7 => format!("/livez/{a}"),
            8 => format!("/apis/apps/v1/namespaces/{a}/deployments/{b}/{c}"),
            9 => format!("/openapi/v3/apis/{a}/v1"),
            10 => format!("/api/v1/namespaces/default/{resource}?dryRun={a}&fieldValidation={b}"),
            11 => format!("/api/v1/watch/{a}"),
            12 => format!("/api/v1/{resource}?watch={a}&timeoutSeconds=1&resourceVersion={b}"),
            13 => format!("/apis/{a}"),
            14 => format!("/metrics/{a}"),
            15 => format!("/debug/{a}"),
            16 => format!("/version/{a}"),
            17 => format!("/api/{a}"),
            18 => format!("/api/v1/namespaces/{a}/{resource}/{b}?timeout={c}"),
            _ => format!("/api/v1/nodes/{a}/proxy/{b}"),
        }
    }
}

async fn attack(server: &Server, handshake: &Handshake, seed: u64, requests: u64) {
    let mut random = Random(seed);
    let mut client: Option<Client> = None;
    for _ in 0..requests {
        let made_up = random.word().to_uppercase();
        let method = random.of(&["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", &made_up]).to_owned();
        let (path, agent, user) = (random.path(), random.word(), random.word());
        let kind =
            format!("application/{}", if random.next().is_multiple_of(2) { "json".to_owned() } else { random.word() });
        let mut headers =
            vec![("user-agent", agent.as_str()), ("content-type", kind.as_str()), ("accept", kind.as_str())];
        if random.next().is_multiple_of(10) {
            headers.push(("impersonate-user", user.as_str()));
        }
        let mut connection = match client.take() {
            Some(connection) => connection,
            None => server.connect(handshake).await,
        };
        // The server closes connections that violate the protocol.
        if connection.send(&method, &path, &headers, "{}").await.is_ok() {
            client = Some(connection);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_do_not_become_label_values() {
    let server = tokio::task::block_in_place(Server::ephemeral);
    let handshake = server.admin();
    let mut sizes = Vec::new();
    for round in 0..2 {
        let attacks = (0..4).map(|part| attack(&server, &handshake, round * 4 + part + 1, REQUESTS / 4));
        futures::future::join_all(attacks).await;
        let lines = wait_until("metrics", async || {
            let answer = server.client().await.get("/metrics").await.ok()?;
            (answer.status == 200).then(|| answer.body.lines().count())
        })
        .await;
        sizes.push(lines);
    }
    assert!(sizes[1] < sizes[0] + SPARE, "lines after {REQUESTS} requests and after as many again: {sizes:?}");
}
