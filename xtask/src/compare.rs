//! Compares the costs of two builds of the server: both are measured in turn, so that other load of the machine affects
//! both alike, and ratios are shown with their range.

use std::path::Path;
use std::process::{Command as Process, Stdio};

use clap::{Arg, ArgMatches, Command, value_parser};

/// The scenarios to measure by default: the paths that requests take most often.
const SCENARIOS: [&str; 7] = ["create", "get", "list", "patch", "apply", "leases", "watch"];

pub(crate) fn command() -> Command {
    Command::new("compare")
        .about("Compares the processor time that two builds of the server need for the scenarios of the bench")
        .arg(Arg::new("base").required(true).help("The program to compare with"))
        .arg(Arg::new("other").required(true).help("The program to judge"))
        .arg(Arg::new("scenarios").num_args(0..).help("Scenarios of the bench, if not the usual ones"))
        .arg(Arg::new("rounds").long("rounds").value_parser(value_parser!(u16).range(1..)).default_value("5"))
        .arg(
            Arg::new("scale").long("scale").default_value("0.3").help("The part of the bench's work that a round does"),
        )
        .arg(
            Arg::new("at-most")
                .long("at-most")
                .value_parser(value_parser!(f64))
                .help("Fail when an operation costs more than so many times what it cost"),
        )
}

/// An operation and its costs in each round: with the base program, and with the other one.
#[derive(Debug, PartialEq)]
struct Operation {
    name: String,
    costs: Vec<[f64; 2]>,
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let programs = ["base", "other"].map(text);
    let named: Vec<&str> = matches.get_many::<String>("scenarios").into_iter().flatten().map(String::as_str).collect();
    let scenarios = if named.is_empty() { &SCENARIOS[..] } else { &named };
    let mut operations = Vec::new();
    for round in 0..matches.get_one::<u16>("rounds").copied().unwrap_or(1) {
        // The first program of one round is the second of the next.
        let mut tables = [const { Vec::new() }; 2];
        for turn in 0..2 {
            let of = usize::from(round + turn) % 2;
            tables[of] = measure(&programs[of], scenarios, &text("scale"))?;
        }
        add(&mut operations, tables)?;
    }
    println!(
        "| operation | CPU us, base | CPU us, other | ratio | of single rounds |\n| --- | --- | --- | --- | --- |"
    );
    operations.iter().for_each(|operation| println!("{}", operation.row()));
    let Some(&most) = matches.get_one::<f64>("at-most") else { return Ok(()) };
    let dearer: Vec<_> = operations.iter().filter(|operation| operation.ratio() > most).collect();
    if dearer.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = dearer.iter().map(|operation| operation.name.as_str()).collect();
    Err(format!("more than {most} times as dear: {}", names.join("; ")))
}

/// Runs the bench with a program, and returns the operations and the cost of each in microseconds.
fn measure(program: &str, scenarios: &[&str], scale: &str) -> Result<Vec<(String, f64)>, String> {
    let program = Path::new(program).canonicalize().map_err(|error| format!("{program}: {error}"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut bench = Process::new(cargo);
    bench.args(["run", "--quiet", "--release", "-p", "binnacle-bench", "--", &format!("--scale={scale}")]);
    let bench = bench.args(scenarios).env("BINNACLE_KUBE_APISERVER", &program).stderr(Stdio::inherit());
    let output = bench.output().map_err(|error| format!("cannot run the bench: {error}"))?;
    if !output.status.success() {
        return Err(format!("the bench of {} failed: {}", program.display(), output.status));
    }
    let table = String::from_utf8_lossy(&output.stdout);
    eprint!("{}\n{table}", program.display());
    Ok(table.lines().filter_map(cost).collect())
}

/// Parses a line of the bench's table: the operation and its processor time; `None` for lines without a cost.
fn cost(line: &str) -> Option<(String, f64)> {
    let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?;
    let cost = cells.nth(4)?.parse::<f64>().ok()?;
    (cost > 0.0).then(|| (name.to_owned(), cost))
}

/// Adds a round, in which both programs ran the same operations.
fn add(operations: &mut Vec<Operation>, [base, other]: [Vec<(String, f64)>; 2]) -> Result<(), String> {
    for (name, cost) in base {
        let Some((_, beside)) = other.iter().find(|(other, _)| *other == name) else {
            return Err(format!("only one of the programs did \"{name}\""));
        };
        match operations.iter_mut().find(|operation| operation.name == name) {
            Some(operation) => operation.costs.push([cost, *beside]),
            None => operations.push(Operation { name, costs: vec![[cost, *beside]] }),
        }
    }
    Ok(())
}

impl Operation {
    fn median(&self, of: usize) -> f64 {
        median(self.costs.iter().map(|costs| costs[of]).collect())
    }

    /// Returns the median over the rounds of the cost relative to the base.
    fn ratio(&self) -> f64 {
        median(self.costs.iter().map(|[base, other]| other / base).collect())
    }

    fn row(&self) -> String {
        let ratios = self.costs.iter().map(|[base, other]| other / base);
        let (least, most) = ratios.fold((f64::MAX, 0.0f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
        format!(
            "| {} | {:.1} | {:.1} | {:.3} | {least:.3} to {most:.3} |",
            self.name,
            self.median(0),
            self.median(1),
            self.ratio()
        )
    }
}

/// Returns the median; of an even number of values, the greater of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rows_of_a_round() {
        for (line, want) in [
            ("| get pod | 64791 | 321 | 0.45 | 1.89 | 15.0 | 116 |", Some(("get pod", 15.0))),
            ("| open 100 watches | 17207 | 0 | NaN | NaN | 0.0 | 0 |", None),
            ("| operation | per second | MB/s | p50 ms | p99 ms | CPU us | resident MB |", None),
            ("| --- | --- | --- | --- | --- | --- | --- |", None),
            ("something else", None),
        ] {
            assert_eq!(cost(line), want.map(|(name, cost)| (name.to_owned(), cost)), "{line}");
        }
        let round = |base, other| [base, other].map(|cost| vec![("get".to_owned(), cost)]);
        let mut operations = Vec::new();
        for (base, other) in [(10.0, 11.0), (12.0, 12.0), (10.0, 13.0)] {
            add(&mut operations, round(base, other)).unwrap();
        }
        assert_eq!(operations[0].row(), "| get | 10.0 | 12.0 | 1.100 | 1.000 to 1.300 |");
        let [base, _] = round(1.0, 1.0);
        assert!(add(&mut operations, [base, Vec::new()]).is_err());
    }
}
