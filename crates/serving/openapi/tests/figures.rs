//! The cost of the documents: `cargo test --release -p binnacle-openapi --test figures -- --ignored --nocapture`.

use std::time::Instant;

use binnacle_kinds::BuiltInKinds;
use binnacle_openapi::{Answer, Ask, OpenApi};
use binnacle_resources::default_served;
use binnacle_scheme::{Served, Shared};

#[test]
#[ignore = "a measurement"]
fn figures() {
    let begun = Instant::now();
    let documents = documents_of(default_served());
    println!("nothing asked: {:?}", begun.elapsed());
    for (path, accept) in [
        ("/openapi/v3/apis/apps/v1", ""),
        ("/openapi/v3/api/v1", ""),
        ("/openapi/v3", ""),
        ("/openapi/v2", ""),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
    ] {
        for time in ["first", "again"] {
            let begun = Instant::now();
            let answer = documents.answer(&Ask { path, accept, ..Ask::default() }).unwrap();
            let took = begun.elapsed();
            let size = match &answer {
                Answer::Index(body) => body.len(),
                Answer::Document(document) => document.body.len(),
                other => panic!("{path}: {other:?}"),
            };
            println!("{path} {accept} {time}: {took:?}, {size} bytes");
        }
    }
}

fn documents_of(served: Served) -> OpenApi {
    OpenApi::new(served.into(), Shared::Static(&BuiltInKinds))
}
