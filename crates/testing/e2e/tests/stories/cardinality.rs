//! Clients cannot make the metrics grow: names that they invent do not become label values.

use std::collections::HashSet;

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Server, wait_until};

/// The number of requests of each of the two rounds.
const REQUESTS: u64 = 800;
/// The number of lines that the second round may add: combinations of known label values that did not occur yet.
const SPARE: usize = 1_500;

/// A small generator of numbers, the same for each run, and all words that it invented.
struct Random {
    state: u64,
    words: HashSet<String>,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn word(&mut self) -> String {
        let word: String =
            (0..8).map(|_| char::from(b"abcdefghijklmnopqrstuvwxyz"[(self.next() % 26) as usize])).collect();
        self.words.insert(word.clone());
        word
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

/// Sends requests, and returns the words in them that the server cannot know.
async fn attack(server: &Server, handshake: &Handshake, seed: u64, requests: u64) -> HashSet<String> {
    let mut random = Random { state: seed, words: HashSet::new() };
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
    random.words
}

/// Returns the values of all labels in metrics, cut at everything that is neither a letter nor a digit.
fn words_of_labels(metrics: &str) -> HashSet<String> {
    let values =
        metrics.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.split('"').skip(1).step_by(2));
    let words = values.flat_map(|value| value.split(|c: char| !c.is_ascii_alphanumeric()));
    words.map(str::to_ascii_lowercase).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_do_not_become_label_values() {
    let server = tokio::task::block_in_place(Server::ephemeral);
    let handshake = server.admin();
    let (mut invented, mut sizes) = (HashSet::new(), Vec::new());
    for round in 0..2 {
        let attacks = (0..4).map(|part| attack(&server, &handshake, round * 4 + part + 1, REQUESTS / 4));
        invented.extend(futures::future::join_all(attacks).await.into_iter().flatten());
        let metrics = wait_until("metrics", async || {
            let answer = server.client().await.get("/metrics").await.ok()?;
            (answer.status == 200).then_some(answer.body)
        })
        .await;
        sizes.push(metrics.lines().count());
        let labels = words_of_labels(&metrics);
        assert!(labels.contains("configmaps"), "requests were counted");
        let found: Vec<&String> = labels.intersection(&invented).collect();
        assert_eq!(found, [""; 0], "of {} invented words", invented.len());
    }
    assert!(sizes[1] < sizes[0] + SPARE, "lines after {REQUESTS} requests and after as many again: {sizes:?}");
}
