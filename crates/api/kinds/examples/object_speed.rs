//! The speed of protobuf and JSON for a pod of typical size, compared with `serde_json::Value`: `cargo run --release -p
//! binnacle-kinds --example object_speed`; an argument selects one row by name. Rates are in bytes of the JSON form
//! where JSON is written or read, and of the protobuf form otherwise.

use std::hint::black_box;
use std::time::Instant;

use binnacle_kinds::tables;
use binnacle_schema::{Limits, decode, json, proto};

const POD: &str = include_str!("pod.json");

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let message = tables::kind("", "v1", "Pod").expect("the tables have pods");
    let pod = decode::json(POD.as_bytes(), message, &Limits::default()).expect("the pod is well formed").value;
    let text = json::to_string(&pod);
    let mut raw = Vec::new();
    proto::encode(&pod, message, &mut raw);
    println!("one pod: {} bytes of JSON, {} of protobuf", text.len(), raw.len());

    let mut out = Vec::with_capacity(2 * text.len());
    measure(&only, "proto::decode", raw.len(), || {
        black_box(proto::decode(black_box(&raw), message, proto::DEPTH).is_ok());
    });
    measure(&only, "proto::encode", raw.len(), || {
        out.clear();
        proto::encode(black_box(&pod), message, &mut out);
    });
    measure(&only, "proto::to_json", text.len(), || {
        out.clear();
        let overrides = proto::Overrides { resource_version: Some("123456") };
        black_box(proto::to_json(black_box(&raw), message, "v1", "Pod", overrides, &mut out).is_ok());
    });
    measure(&only, "proto::decode, json::write", text.len(), || {
        out.clear();
        if let Ok(tree) = proto::decode(black_box(&raw), message, proto::DEPTH) {
            json::write(&tree, &mut out);
        }
    });
    measure(&only, "splice_resource_version", raw.len(), || {
        out.clear();
        if let Ok(splice) = proto::Splice::find(black_box(&raw)) {
            splice.write("123456", &mut out);
        }
    });
    measure(&only, "decode::json", text.len(), || {
        black_box(decode::json(black_box(text.as_bytes()), message, &Limits::default()).is_ok());
    });
    measure(&only, "json::write", text.len(), || {
        out.clear();
        json::write(black_box(&pod), &mut out);
    });
    let value: serde_json::Value = serde_json::from_str(&text).expect("the pod is well formed");
    measure(&only, "serde_json::Value, read", text.len(), || {
        black_box(serde_json::from_slice::<serde_json::Value>(black_box(text.as_bytes())).is_ok());
    });
    measure(&only, "serde_json::Value, write", text.len(), || {
        out.clear();
        black_box(serde_json::to_writer(&mut out, black_box(&value)).is_ok());
    });
}

/// Returns the best of several rounds: noise only increases the time.
fn measure(only: &str, name: &str, bytes: usize, mut work: impl FnMut()) {
    if !only.is_empty() && name != only {
        return;
    }
    const TIMES: u32 = 2000;
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..TIMES {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(TIMES));
    }
    println!("{name:<26} {:>8.2} us {:>8.0} MB/s", best * 1e6, bytes as f64 / best / 1e6);
}
