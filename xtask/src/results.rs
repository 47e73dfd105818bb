//! `cargo xtask results`: the tables of measurements in pages, from `bench/results.json`.
//!
//! A page has a table between `<!-- results NAME -->` and `<!-- end of results -->`.

use serde_json::Value;

use crate::process;

const RESULTS: &str = "bench/results.json";
const PAGES: [&str; 3] = ["README.md", "docs/comparison.md", "docs/measured.md"];
const BEGIN: &str = "<!-- results ";
const END: &str = "<!-- end of results -->";

/// The rows of README.md: section, operation, and its description there.
const OVERVIEW: [(&str, &str, &str); 5] = [
    (MANY, "create a pod", "create a pod"),
    (MANY, "get a pod", "get a pod"),
    (MANY, "list 3,000 pods, JSON", "list 3,000 pods as JSON"),
    (MANY, "renew a Lease", "renew a lease"),
    (MANY, "event to each of 1,000 watchers", "deliver an event to one of 1,000 watchers"),
];

/// The rows of docs/comparison.md.
const COMPARISON: [(&str, &str, &str); 10] = [
    (MANY, "create a pod", "create a pod"),
    (MANY, "get a pod", "get a pod"),
    (MANY, "list 3,000 pods, JSON", "list 3,000 pods, JSON"),
    ("admission", "100 policies", "create a ConfigMap with 100 policies"),
    ("admission", "a mutating and a validating webhook", "create a ConfigMap with two webhooks"),
    ("aggregation", "CPU per read", "read forwarded to an extension API server"),
    (
        CUSTOM,
        "definition of 186 fields, created to discovered, 40 at once",
        "definition of 186 fields, until it is discovered",
    ),
    (CUSTOM, "memory of each, read once, in KB", "memory of that definition, MB"),
    (CUSTOM, "get", "get a custom resource"),
    (CUSTOM, "list all (1500)", "list 1,500 custom resources"),
];

const MANY: &str = "many-requests-per-connection";
const CUSTOM: &str = "custom-resources";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("results")
        .about("Writes the tables of measurements in pages from bench/results.json")
        .long_about("Writes the tables of measurements in README.md, docs/comparison.md and docs/measured.md from bench/results.json.")
}

pub(crate) fn run() -> Result<(), String> {
    let results = read_results()?;
    for page in PAGES {
        let text = read(page)?;
        let written = with_tables(&text, &results).map_err(|error| format!("{page}: {error}"))?;
        std::fs::write(process::root().join(page), written).map_err(|error| format!("cannot write {page}: {error}"))?;
    }
    Ok(())
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(process::root().join(file)).map_err(|error| format!("cannot read {file}: {error}"))
}

fn read_results() -> Result<Value, String> {
    serde_json::from_str(&read(RESULTS)?).map_err(|error| format!("{RESULTS}: {error}"))
}

/// Returns the page with the tables of the results.
fn with_tables(page: &str, results: &Value) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, old) = after.split_once(" -->\n").ok_or("a table has no name")?;
        let (_, behind) = old.split_once(END).ok_or_else(|| format!("the table {name} has no end"))?;
        text.push_str(&format!("{before}{BEGIN}{name} -->\n\n{}\n{END}", table(name, results)?));
        rest = behind;
    }
    Ok(text + rest)
}

fn table(name: &str, results: &Value) -> Result<String, String> {
    match name {
        "overview" => overview(results),
        "comparison" => comparison(results),
        CUSTOM => custom_resources(results),
        _ => section(name, results),
    }
}

/// Returns the rows of a section as kube-apiserver's, ours, and the ratios.
fn section(name: &str, results: &Value) -> Result<String, String> {
    let rows = rows(name, results)?;
    let has_optimized = rows.iter().any(|row| row.get("optimized").is_some());
    let mut text = String::from(match has_optimized {
        true => {
            "| operation | kube-apiserver | release | optimized | ratio, release | ratio, optimized |\n\
             | --- | --- | --- | --- | --- | --- |\n"
        }
        false => "| operation | kube-apiserver | Binnacle | ratio |\n| --- | --- | --- | --- |\n",
    });
    for row in rows {
        let (operation, go, release) = (operation(row)?, figure(row, "kube-apiserver")?, figure(row, "release")?);
        let line = if has_optimized {
            let optimized = figure(row, "optimized")?;
            let ratios = format!("{} | {}", ratio(go / release, 30.0), ratio(go / optimized, 30.0));
            format!("| {operation} | {} | {} | {} | {ratios} |\n", plain(go), plain(release), plain(optimized))
        } else {
            format!("| {operation} | {} | {} | {} |\n", plain(go), plain(release), ratio(go / release, 30.0))
        };
        text.push_str(&line);
    }
    Ok(text)
}

fn custom_resources(results: &Value) -> Result<String, String> {
    let mut text = String::from(
        "| operation | kube-apiserver | Binnacle | CPU ratio | time ratio |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in rows(CUSTOM, results)? {
        let (operation, go, release) = (operation(row)?, figure(row, "kube-apiserver")?, figure(row, "release")?);
        let cpu = ratio(go / release, 30.0);
        let (go, release) = (plain(go), plain(release));
        text.push_str(&match (figure(row, "kube-apiserver ms"), figure(row, "release ms")) {
            (Ok(go_ms), Ok(release_ms)) => {
                let times = if release_ms > 0.0 { ratio(go_ms / release_ms, 30.0) } else { "-".to_owned() };
                format!("| {operation} | {go}, {go_ms:.2} | {release}, {release_ms:.2} | {cpu} | {times} |\n")
            }
            _ => format!("| {operation} | {go} | {release} | {cpu} | |\n"),
        });
    }
    Ok(text)
}

fn overview(results: &Value) -> Result<String, String> {
    let mut text = String::from(
        "| CPU time per operation, microseconds | kube-apiserver and etcd | Binnacle | ratio |\n| --- | --- | --- | --- |\n",
    );
    for (section, name, description) in OVERVIEW {
        let row = find(section, name, results)?;
        let (go, release) = (figure(row, "kube-apiserver")?, figure(row, "release")?);
        let ratio = ratio(go / release, 10.0);
        text.push_str(&format!("| {description} | {} | {} | {ratio} |\n", plain(go), plain(release)));
    }
    Ok(text)
}

/// Returns rows in milliseconds, each with the date and a link to its section.
fn comparison(results: &Value) -> Result<String, String> {
    let mut text = String::from(
        "| operation, ms | kube-apiserver | Binnacle | ratio | measured |\n| --- | --- | --- | --- | --- |\n",
    );
    for (section, name, description) in COMPARISON {
        let row = find(section, name, results)?;
        let (go, release) = (figure(row, "kube-apiserver")?, figure(row, "release")?);
        let date = results.pointer(&format!("/{section}/date")).and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!(
            "| {description} | {} | {} | {} | [{date}](measured.md#{section}) |\n",
            thousandth(go),
            thousandth(release),
            ratio(go / release, 10.0)
        ));
    }
    Ok(text)
}

fn rows<'a>(section: &str, results: &'a Value) -> Result<&'a Vec<Value>, String> {
    let rows = results.pointer(&format!("/{section}/rows")).and_then(Value::as_array);
    rows.ok_or_else(|| format!("{RESULTS} has no section {section}"))
}

fn find<'a>(section: &str, name: &str, results: &'a Value) -> Result<&'a Value, String> {
    let row = rows(section, results)?.iter().find(|row| operation(row).is_ok_and(|operation| operation == name));
    row.ok_or_else(|| format!("{RESULTS} has no {name} in {section}"))
}

fn operation(row: &Value) -> Result<&str, String> {
    row.get("operation").and_then(Value::as_str).ok_or_else(|| format!("{RESULTS} has a row without operation"))
}

fn figure(row: &Value, name: &str) -> Result<f64, String> {
    row.get(name).and_then(Value::as_f64).ok_or_else(|| format!("{RESULTS} has a row without {name}: {row}"))
}

/// Formats a ratio: whole from a bound on, otherwise with one decimal.
fn ratio(ratio: f64, whole_from: f64) -> String {
    if ratio >= whole_from { format!("{ratio:.0}") } else { format!("{ratio:.1}") }
}

/// Formats a figure with commas between thousands, and at most one decimal.
fn plain(figure: f64) -> String {
    let text = if figure.fract() == 0.0 { format!("{figure:.0}") } else { format!("{figure:.1}") };
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if decimals.is_empty() { grouped } else { format!("{grouped}.{decimals}") }
}

/// Formats a thousandth of a figure with three digits.
fn thousandth(figure: f64) -> String {
    match figure / 1000.0 {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_results() {
        let results = read_results().unwrap();
        for page in PAGES {
            let text = read(page).unwrap();
            assert!(text.contains(BEGIN), "{page} has no table");
            assert!(
                with_tables(&text, &results).unwrap() == text,
                "{page} differs from {RESULTS}: cargo xtask results"
            );
        }
    }

    #[test]
    fn figures_are_formatted() {
        let cases =
            [(1620.0, "1,620", "1.62"), (283_000.0, "283,000", "283"), (23.4, "23.4", "0.023"), (19.0, "19", "0.019")];
        for (figure, want, want_thousandth) in cases {
            assert_eq!((plain(figure).as_str(), thousandth(figure).as_str()), (want, want_thousandth), "{figure}");
        }
        assert_eq!((ratio(41.4, 30.0).as_str(), ratio(6.88, 30.0).as_str()), ("41", "6.9"));
    }

    #[test]
    fn rejects_table_without_end() {
        assert!(with_tables("<!-- results overview -->\n", &Value::Null).is_err());
    }
}
