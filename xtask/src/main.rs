//! Repository tasks, run as `cargo xtask TASK`.

mod artifacts;
mod book;
mod compare;
mod dependencies;
mod dist;
mod envtest;
mod gates;
mod gzip;
mod import_api;
mod language;
mod manual;
mod markdown;
mod metadata;
mod mutants;
mod placement;
mod process;
mod profile;
mod release;
mod results;
mod started;
mod training;
#[cfg(test)]
mod workflows;

use std::process::ExitCode;

use clap::Command;

/// Returns the command with all tasks.
fn tasks() -> Command {
    Command::new("cargo xtask")
        .about("Tasks of this repository")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(artifacts::command())
        .subcommand(book::command())
        .subcommand(dist::build::command())
        .subcommand(compare::command())
        .subcommand(dependencies::command())
        .subcommand(dist::command())
        .subcommand(envtest::command())
        .subcommand(gates::command())
        .subcommand(import_api::command())
        .subcommand(language::command())
        .subcommand(manual::command())
        .subcommand(metadata::command())
        .subcommand(mutants::command())
        .subcommand(profile::command())
        .subcommand(release::command())
        .subcommand(results::command())
}

fn main() -> ExitCode {
    let matches = tasks().get_matches();
    let outcome = match matches.subcommand() {
        Some(("book", _)) => book::run(),
        Some(("build", matches)) => dist::build::run(matches),
        Some(("compare", matches)) => compare::run(matches),
        Some(("dependencies", _)) => dependencies::run(),
        Some(("dist", matches)) => dist::run(matches),
        Some(("envtest", matches)) => envtest::run(matches),
        Some(("feature-gates", _)) => gates::run(),
        Some(("import-api", matches)) => import_api::run(matches),
        Some(("language", matches)) => language::run(matches),
        Some(("manual", _)) => manual::run(),
        Some(("metadata", matches)) => metadata::run(matches),
        Some(("mutants", matches)) => mutants::run(matches),
        Some(("profile", matches)) => profile::run(matches),
        Some(("release", matches)) => release::run(matches),
        Some(("release-artifacts", matches)) => artifacts::run(matches),
        Some(("results", _)) => results::run(),
        _ => unreachable!("clap knows no other subcommand"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
