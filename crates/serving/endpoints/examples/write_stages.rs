//! Measures the CPU time of each stage of writing a pod, without HTTP, admission and storage: `cargo run --release -p
//! binnacle-endpoints --example write_stages`. An argument selects the rows whose names contain it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use binnacle_features::Features;
use binnacle_kinds::{strategy, tables};
use binnacle_meta::{FieldErrors, FieldPath, Text};
use binnacle_patch::apply;
use binnacle_schema::{Limits, Message, Value, canonical, decode, defaults, json, proto};
use binnacle_scheme::{Strategy, StrategyContext};
use binnacle_validation::metadata;

const POD: &str = include_str!("../../../api/kinds/examples/pod.json");
const TIMES: u32 = 500;
const ROUNDS: u32 = 20;

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let features = Features::default();
    let stages = Stages {
        rows: Rows { only },
        message: tables::kind("", "v1", "Pod").expect("the tables have pods"),
        rules: strategy("", "Pod"),
        ctx: StrategyContext {
            features: &features,
            now: 1_800_000_000,
            namespace: "kload",
            api_version: "v1",
            dry_run: false,
        },
        metadata: FieldPath::new("metadata"),
    };
    let full = decode::json(POD.as_bytes(), stages.message, &Limits::default()).expect("the pod is well formed").value;
    let sent = as_sent(&full);
    let text = json::to_string(&sent);
    println!("one pod: {} bytes as sent, {} as kept", text.len(), json::to_string(&full).len());

    stages.decode(&sent, &text);
    let object = stages.prepare(&sent);
    stages.validate(&object);
    stages.encode(object, text.len());
    stages.update_status(&full);
}

/// Returns the object as a client sends it: without status and managed fields.
fn as_sent(full: &Value) -> Value {
    let mut sent = full.clone();
    sent.make_object().remove("status");
    for server in ["managedFields", "uid", "creationTimestamp", "generation"] {
        sent.make_at(&["metadata"]).remove(server);
    }
    sent
}

/// The stages of writing a pod.
struct Stages<'a> {
    rows: Rows,
    message: &'static Message,
    rules: &'static dyn Strategy,
    ctx: StrategyContext<'a>,
    /// The path of the metadata.
    metadata: FieldPath,
}

impl Stages<'_> {
    fn decode(&self, sent: &Value, text: &str) {
        self.rows.time("clone of the tree", || (), |()| sent.clone());
        self.rows.time(
            "create: decode JSON",
            || (),
            |()| decode::json(black_box(text.as_bytes()), self.message, &Limits::default()).is_ok(),
        );
    }

    /// Returns the object as it is validated.
    fn prepare(&self, sent: &Value) -> Value {
        let reset = [Text::new_static("status")];
        self.rows.time(
            "create: defaults",
            || sent.clone(),
            |mut object| {
                self.set_defaults(&mut object);
                object
            },
        );
        let mut object = sent.clone();
        self.set_defaults(&mut object);
        self.rows.time(
            "create: managed fields",
            || object.clone(),
            |mut object| {
                apply::track_update(&self.update("", &reset), None, &mut object);
                object
            },
        );
        apply::track_update(&self.update("", &reset), None, &mut object);
        self.rows.time(
            "create: prepare",
            || object.clone(),
            |mut object| {
                self.rules.prepare_for_create(&self.ctx, &mut object);
                object
            },
        );
        self.rules.prepare_for_create(&self.ctx, &mut object);
        object
    }

    fn validate(&self, object: &Value) {
        self.rows.time("create: validate metadata", || (), |()| self.check_metadata(black_box(object)));
        self.rows.time("create: validate", || (), |()| self.rules.validate(&self.ctx, black_box(object)));
        self.rows.time(
            "create: warnings",
            || (),
            |()| (self.rules.warnings_on_receipt(black_box(object)), self.rules.warnings(black_box(object), None)),
        );
    }

    fn encode(&self, mut object: Value, sent_len: usize) {
        self.rows.time(
            "create: canonical form",
            || object.clone(),
            |mut object| {
                canonical::canonicalize(&mut object, self.message);
                object
            },
        );
        canonical::canonicalize(&mut object, self.message);
        let mut out = Vec::with_capacity(3 * sent_len);
        self.rows.time(
            "create: encode protobuf",
            || (),
            |()| {
                out.clear();
                proto::encode(black_box(&object), self.message, &mut out);
                out.len()
            },
        );
        self.rows.time(
            "create: encode JSON",
            || (),
            |()| {
                out.clear();
                json::write(black_box(&object), &mut out);
                out.len()
            },
        );
    }

    fn update_status(&self, full: &Value) {
        let reset = ["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"].map(Text::new_static);
        let mut raw = Vec::new();
        proto::encode(full, self.message, &mut raw);
        self.rows.time(
            "status: decode stored",
            || (),
            |()| proto::decode(black_box(&raw), self.message, proto::DEPTH).is_ok(),
        );
        let mut next = full.clone();
        next.make_at(&["status"]).insert("message", "another");
        self.rows.time(
            "status: prepare",
            || next.clone(),
            |mut next| {
                self.rules.prepare_for_subresource("status", &self.ctx, &mut next, full);
                next
            },
        );
        self.rows.time(
            "status: managed fields",
            || next.clone(),
            |mut next| {
                apply::track_update(&self.update("status", &reset), Some(full), &mut next);
                next
            },
        );
        self.rows.time(
            "status: validate",
            || (),
            |()| {
                (
                    self.check_metadata(black_box(&next)),
                    self.rules.validate_subresource("status", &self.ctx, black_box(&next), black_box(full)),
                )
            },
        );
        self.rows.time(
            "update: validate",
            || (),
            |()| {
                (
                    self.check_metadata(black_box(&next)),
                    self.rules.validate_update(&self.ctx, black_box(&next), black_box(full)),
                )
            },
        );
    }

    fn update<'a>(&'a self, subresource: &'a str, reset: &'a [Text]) -> apply::Update<'a> {
        apply::Update {
            message: self.message,
            api_version: "v1",
            manager: "kload",
            subresource,
            now: 1_800_000_000,
            reset,
        }
    }

    fn set_defaults(&self, object: &mut Value) {
        defaults::apply_constants(object, self.message);
        self.rules.set_defaults("v1", object);
    }

    fn check_metadata(&self, object: &Value) -> FieldErrors {
        let none = Value::Null;
        let own = object.get("metadata").unwrap_or(&none);
        let features = self.ctx.features;
        metadata::validate(own, true, |name, prefix| self.rules.validate_name(features, name, prefix), &self.metadata)
    }
}

struct Rows {
    only: String,
}

impl Rows {
    /// Prints the best of several rounds, since noise only adds time; `prepare` is not timed.
    fn time<I, O>(&self, name: &str, mut prepare: impl FnMut() -> I, mut work: impl FnMut(I) -> O) {
        if !name.contains(&self.only) {
            return;
        }
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let mut spent = Duration::ZERO;
            for _ in 0..TIMES {
                let input = prepare();
                let start = Instant::now();
                let output = work(input);
                spent += start.elapsed();
                black_box(output);
            }
            best = best.min(spent / TIMES);
        }
        println!("{name:<26} {:>8.2} us", best.as_secs_f64() * 1e6);
    }
}
