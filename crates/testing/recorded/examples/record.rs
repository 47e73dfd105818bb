//! Records a server's responses as the expectations of the cases in a file; for new cases the server is Go's.
//!
//! `record FILE` only formats the file. `record FILE PORT CA TOKEN [TEXT]` runs the cases whose name contains TEXT on
//! the server at a port of 127.0.0.1, whose certificate CA (a file) has signed, with a TOKEN of `system:masters`.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use binnacle_comparison::{File, record};
use binnacle_recorded::endpoint;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [path] => write(path, None, "").await,
        [path, port, authority, token] => write(path, Some((port, authority, token)), "").await,
        [path, port, authority, token, text] => write(path, Some((port, authority, token)), text).await,
        _ => Err("usage: record FILE [PORT CA TOKEN [TEXT]]".to_owned()),
    };
    match done {
        Ok(count) => println!("{count} cases recorded"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn write(path: &str, server: Option<(&str, &str, &str)>, text: &str) -> Result<usize, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let mut file = File::parse(&read(path)?).map_err(|error| format!("{path}: {error}"))?;
    let mut count = 0;
    if let Some((port, authority, token)) = server {
        let port: u16 = port.parse().map_err(|error| format!("{port}: {error}"))?;
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let endpoint = endpoint(address, "127.0.0.1", &read(authority)?, token)?;
        for (place, case) in file.cases()?.iter().enumerate().filter(|(_, case)| case.head.name.contains(text)) {
            let recorded = record(&endpoint, case).await.map_err(|error| format!("{}: {error}", case.head.name))?;
            file.expect(place, recorded);
            count += 1;
        }
    }
    std::fs::write(path, file.text()).map_err(|error| format!("{path}: {error}"))?;
    Ok(count)
}
