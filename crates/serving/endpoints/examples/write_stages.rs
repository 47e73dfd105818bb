//! Measures the CPU time of each stage of writing a pod, without HTTP, admission and storage: `cargo run --release -p
//! binnacle-endpoints --example write_stages`. An argument selects the rows whose names contain it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use binnacle_features::Features;
use binnacle_kinds::{strategy, tables};
use binnacle_meta::FieldPath;
use binnacle_meta::Text;
use binnacle_patch::apply;
use binnacle_schema::{Limits, Value, canonical, decode, defaults, json, proto};
use binnacle_scheme::StrategyContext;
use binnacle_validation::metadata;

const POD: &str = include_str!("../../../api/kinds/examples/pod.json");
const TIMES: u32 = 500;
const ROUNDS: u32 = 20;

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let rows = Rows { only };
    let message = tables::kind("", "v1", "Pod").expect("the tables have pods");
    let pods = strategy("", "Pod");
    let features = Features::default();
    let ctx = StrategyContext {
        features: &features,
        now: 1_800_000_000,
        namespace: "kload",
        api_version: "v1",
        dry_run: false,
    };
    let main_reset = ["status".into()];
    let update = |subresource, reset| apply::Update {
        message,
        api_version: "v1",
        manager: "kload",
        subresource,
        now: 1_800_000_000,
        reset,
    };
    let status_reset = ["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"].map(Text::new_static);

    // The object as a client sends it: without status and managed fields.
    let full = decode::json(POD.as_bytes(), message, &Limits::default()).expect("the pod is well formed").value;
    let mut sent = full.clone();
    sent.make_object().remove("status");
    for server in ["managedFields", "uid", "creationTimestamp", "generation"] {
        sent.make_at(&["metadata"]).remove(server);
    }
    let text = json::to_string(&sent);
    println!("one pod: {} bytes as sent, {} as kept", text.len(), json::to_string(&full).len());

    rows.time("clone of the tree", || (), |()| sent.clone());
    rows.time(
        "create: decode JSON",
        || (),
        |()| decode::json(black_box(text.as_bytes()), message, &Limits::default()).is_ok(),
    );
    let set_defaults = |object: &mut Value| {
        defaults::apply_constants(object, message);
        pods.set_defaults("v1", object);
    };
    rows.time(
        "create: defaults",
        || sent.clone(),
        |mut object| {
            set_defaults(&mut object);
            object
        },
    );
    let mut object = sent.clone();
    set_defaults(&mut object);
    rows.time(
        "create: managed fields",
        || object.clone(),
        |mut object| {
            apply::track_update(&update("", &main_reset), None, &mut object);
            object
        },
    );
    apply::track_update(&update("", &main_reset), None, &mut object);
    rows.time(
        "create: prepare",
        || object.clone(),
        |mut object| {
            pods.prepare_for_create(&ctx, &mut object);
            object
        },
    );
    pods.prepare_for_create(&ctx, &mut object);
    let none = Value::Null;
    let path = FieldPath::new("metadata");
    let check_metadata = |object: &Value| {
        let own = object.get("metadata").unwrap_or(&none);
        metadata::validate(own, true, |name, prefix| pods.validate_name(&features, name, prefix), &path)
    };
    rows.time("create: validate metadata", || (), |()| check_metadata(black_box(&object)));
    rows.time("create: validate", || (), |()| pods.validate(&ctx, black_box(&object)));
    rows.time(
        "create: warnings",
        || (),
        |()| (pods.warnings_on_receipt(black_box(&object)), pods.warnings(black_box(&object), None)),
    );
    rows.time(
        "create: canonical form",
        || object.clone(),
        |mut object| {
            canonical::canonicalize(&mut object, message);
            object
        },
    );
    canonical::canonicalize(&mut object, message);
    let mut out = Vec::with_capacity(3 * text.len());
    rows.time(
        "create: encode protobuf",
        || (),
        |()| {
            out.clear();
            proto::encode(black_box(&object), message, &mut out);
            out.len()
        },
    );
    rows.time(
        "create: encode JSON",
        || (),
        |()| {
            out.clear();
            json::write(black_box(&object), &mut out);
            out.len()
        },
    );

    let mut raw = Vec::new();
    proto::encode(&full, message, &mut raw);
    rows.time("status: decode stored", || (), |()| proto::decode(black_box(&raw), message, proto::DEPTH).is_ok());
    let mut next = full.clone();
    next.make_at(&["status"]).insert("message", "another");
    rows.time(
        "status: prepare",
        || next.clone(),
        |mut next| {
            pods.prepare_for_subresource("status", &ctx, &mut next, &full);
            next
        },
    );
    rows.time(
        "status: managed fields",
        || next.clone(),
        |mut next| {
            apply::track_update(&update("status", &status_reset), Some(&full), &mut next);
            next
        },
    );
    rows.time(
        "status: validate",
        || (),
        |()| {
            (
                check_metadata(black_box(&next)),
                pods.validate_subresource("status", &ctx, black_box(&next), black_box(&full)),
            )
        },
    );
    rows.time(
        "update: validate",
        || (),
        |()| (check_metadata(black_box(&next)), pods.validate_update(&ctx, black_box(&next), black_box(&full))),
    );
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
