//! Two servers in one process: one in memory, one in a directory with a feature gate of its own.
//!
//!     cargo run -p binnacle-apiserver --example embed

use binnacle_apiserver::{Gates, Server, Settings, Version};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gates = Gates::parse(&["GenericWorkload=true"], Version::BINARY, Version::BINARY.previous())?;
    let directory = std::env::temp_dir().join("binnacle-embedded");
    let mut passing = Server::start(Settings::ephemeral()).await?;
    let mut lasting = Server::start(Settings::in_directory(&directory).gates(gates).allow_privileged(false)).await?;
    for server in [&mut passing, &mut lasting] {
        server.ready().await?;
        println!("{} with its objects in {}", server.url(), server.place());
        println!("{} get namespaces", server.kubectl());
    }
    passing.stop().await;
    lasting.stop().await;
    Ok(())
}
