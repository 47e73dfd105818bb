//! Measures the cost of the documents: `cargo test --release -p binnacle-openapi --test figures -- --ignored
//! --nocapture`.

use std::time::Instant;

use binnacle_kinds::BuiltInKinds;
use binnacle_openapi::{OpenApi, OpenApiRequest, OpenApiResponse};
use binnacle_resources::default_served;
use binnacle_scheme::{ServedResources, Shared};

#[test]
#[ignore = "a measurement"]
fn measure_documents() {
    let start = Instant::now();
    let documents = documents_of(default_served());
    println!("nothing asked: {:?}", start.elapsed());
    for (path, accept) in [
        ("/openapi/v3/apis/apps/v1", ""),
        ("/openapi/v3/api/v1", ""),
        ("/openapi/v3", ""),
        ("/openapi/v2", ""),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
    ] {
        for time in ["first", "again"] {
            let start = Instant::now();
            let response = documents.respond(&OpenApiRequest { path, accept, ..OpenApiRequest::default() }).unwrap();
            let took = start.elapsed();
            let size = match &response {
                OpenApiResponse::Index(body) => body.len(),
                OpenApiResponse::Document(document) => document.body.len(),
                other => panic!("{path}: {other:?}"),
            };
            println!("{path} {accept} {time}: {took:?}, {size} bytes");
        }
    }
}

fn documents_of(served: ServedResources) -> OpenApi {
    OpenApi::new(served.into(), Shared::Static(&BuiltInKinds))
}
