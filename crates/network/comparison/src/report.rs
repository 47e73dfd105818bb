//! The report of a replay: counts, and differences by cause.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::cause::Cause;
use crate::difference::Difference;
use crate::mask;
use crate::subject::Subject;
use crate::verdict::Verdict;

/// The maximum number of examples of a cause.
const EXAMPLES: usize = 3;
/// The maximum number of differences of an example.
const SHOWN: usize = 5;
/// The maximum number of failures that are listed.
const FAILURES: usize = 50;
/// The documentation of known gaps.
const GAPS: &str = "docs/known-gaps.md";

/// The results of a replay.
#[derive(Debug, Serialize)]
pub struct Report {
    servers: [String; 2],
    /// Requests that both servers answered, and those that failed.
    requests: usize,
    equal: usize,
    explained: usize,
    unexplained: usize,
    /// Answers from different states of the store.
    skew: usize,
    failed: usize,
    /// Requests of the source that were not sent, by reason.
    skipped: BTreeMap<String, usize>,
    causes: BTreeMap<String, CauseReport>,
    /// The skews, by verb and resource.
    skews: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// The differences with one cause.
#[derive(Debug, Default, Serialize)]
struct CauseReport {
    count: usize,
    explanation: Option<Explanation>,
    examples: Vec<Example>,
}

#[derive(Debug, Serialize)]
struct Explanation {
    rule: String,
    reason: String,
    section: String,
}

#[derive(Debug, Serialize)]
struct Example {
    request: String,
    differences: Vec<String>,
}

impl Report {
    pub(crate) fn new(servers: [String; 2]) -> Self {
        Self {
            servers,
            requests: 0,
            equal: 0,
            explained: 0,
            unexplained: 0,
            skew: 0,
            failed: 0,
            skipped: BTreeMap::new(),
            causes: BTreeMap::new(),
            skews: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Returns true if no difference is unexplained and every request was answered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unexplained == 0 && self.failed == 0
    }

    pub(crate) fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    pub(crate) fn fail(&mut self, failure: String) {
        self.requests += 1;
        self.failed += 1;
        if self.failures.len() < FAILURES {
            self.failures.push(mask::text(&failure));
        }
    }

    pub(crate) fn add(&mut self, subject: &Subject, verdict: Verdict<'_>) {
        let outgoing = &subject.outgoing;
        let mut request = format!("{} {}", outgoing.method, outgoing.target);
        if let Some(accept) = outgoing.headers.get("Accept").and_then(Value::as_str) {
            let _ = write!(request, " as {accept}");
        }
        self.add_step(&request, subject, verdict);
    }

    /// Adds the result of a request or a step. `title` identifies it.
    pub(crate) fn add_step(&mut self, title: &str, subject: &Subject, verdict: Verdict<'_>) {
        if let Verdict::Failed(error) = verdict {
            return self.fail(format!("{title}: {error}"));
        }
        self.requests += 1;
        let (explanation, differences) = match verdict {
            Verdict::Equal => return self.equal += 1,
            Verdict::Skew => {
                self.skew += 1;
                *self.skews.entry(format!("{} {}", subject.verb, subject.resource)).or_default() += 1;
                return;
            }
            Verdict::Failed(_) => return,
            Verdict::Explained(rule, differences) => {
                self.explained += 1;
                let section = format!("{GAPS}#{}", rule.anchor);
                (Some(Explanation { rule: rule.name.clone(), reason: rule.reason.clone(), section }), differences)
            }
            Verdict::Different(mismatch) => {
                self.unexplained += 1;
                (None, mismatch.differences)
            }
        };
        let cause = match &explanation {
            Some(explanation) => format!("explained: {}", explanation.rule),
            None => Cause::of(subject, &differences).text,
        };
        let cause = self.causes.entry(cause).or_default();
        cause.count += 1;
        cause.explanation = explanation;
        if cause.examples.len() < EXAMPLES {
            let differences = differences.iter().take(SHOWN).map(Difference::text).collect();
            cause.examples.push(Example { request: mask::text(title), differences });
        }
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the counts and the unexplained causes as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{} and {}\n{}\n", self.servers[0], self.servers[1], self.counts());
        for (reason, count) in &self.skipped {
            let _ = writeln!(out, "skipped {count}: {reason}");
        }
        for (requests, count) in &self.skews {
            let _ = writeln!(out, "skew {count}: {requests}");
        }
        for (cause, found) in self.sorted() {
            let _ = writeln!(out, "\n{} x {cause}", found.count);
            if let Some(explanation) = &found.explanation {
                let _ = writeln!(out, "  {} ({})", explanation.reason, explanation.section);
                continue;
            }
            for example in &found.examples {
                let _ = writeln!(out, "  {}", example.request);
                for difference in &example.differences {
                    let _ = writeln!(out, "    {difference}");
                }
            }
        }
        if !self.failures.is_empty() {
            let _ = writeln!(out, "\nfailures:");
            for failure in &self.failures {
                let _ = writeln!(out, "  {failure}");
            }
        }
        out
    }

    /// Returns the report as a page without scripts and references.
    #[must_use]
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Comparison of {0} and {1}</title>\n\
             <style>body{{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}}\
             pre{{background:#f4f4f4;overflow-x:auto;padding:.6em}}td,th{{padding:.2em 1em .2em 0;text-align:left}}</style>\n\
             <h1>Comparison of {0} and {1}</h1>\n<p>{2}</p>\n",
            escape(&self.servers[0]),
            escape(&self.servers[1]),
            self.counts(),
        );
        if !self.skipped.is_empty() {
            out += "<table><tr><th>Skipped<th>Reason\n";
            for (reason, count) in &self.skipped {
                let _ = writeln!(out, "<tr><td>{count}<td>{}", escape(reason));
            }
            out += "</table>\n";
        }
        for (title, is_explained) in [("Unexplained differences", false), ("Known gaps", true)] {
            let causes = self.sorted().into_iter().filter(|(_, found)| found.explanation.is_some() == is_explained);
            let causes: Vec<_> = causes.collect();
            let _ = writeln!(out, "<h2>{title}: {}</h2>", causes.len());
            causes.into_iter().for_each(|(cause, found)| found.html(cause, &mut out));
        }
        if !self.failures.is_empty() {
            let failures: Vec<String> = self.failures.iter().map(|failure| escape(failure)).collect();
            let _ = writeln!(out, "<h2>Failures: {}</h2>\n<pre>{}</pre>", self.failed, failures.join("\n"));
        }
        out + "</html>\n"
    }

    fn counts(&self) -> String {
        format!(
            "{} requests: {} equal, {} explained, {} unexplained, {} skew, {} failed",
            self.requests, self.equal, self.explained, self.unexplained, self.skew, self.failed
        )
    }

    /// Returns the causes, those of unexplained differences first, then by count.
    fn sorted(&self) -> Vec<(&String, &CauseReport)> {
        let mut causes: Vec<_> = self.causes.iter().collect();
        causes.sort_by_key(|(_, found)| (found.explanation.is_some(), std::cmp::Reverse(found.count)));
        causes
    }
}

impl CauseReport {
    fn html(&self, cause: &str, out: &mut String) {
        let _ = writeln!(out, "<h3>{} &times; {}</h3>", self.count, escape(cause));
        if let Some(explanation) = &self.explanation {
            let _ = writeln!(out, "<p>{} ({})</p>", escape(&explanation.reason), escape(&explanation.section));
        }
        for example in &self.examples {
            let differences: Vec<String> = example.differences.iter().map(|text| escape(text)).collect();
            let _ = writeln!(
                out,
                "<p><code>{}</code></p>\n<pre>{}</pre>",
                escape(&example.request),
                differences.join("\n")
            );
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Report;
    use crate::difference::Difference;
    use crate::endpoint::Outgoing;
    use crate::explained::Rules;
    use crate::subject::Subject;
    use crate::verdict::{Verdict, verdict};

    #[test]
    fn counts_results_and_groups_differences_by_cause() {
        let rules = Rules::parse("known | * | /body/a | * | * | different-answers | a reason for it\n").unwrap();
        let mut report = Report::new(["a:1".to_owned(), "b:2".to_owned()]);
        let subject = |target: &str| Subject::parse(Outgoing::empty("GET", target)).unwrap();
        for (target, member) in [("/api/v1/pods", "a"), ("/api/v1/pods", "<b>"), ("/api/v1/namespaces/n/pods", "<b>")] {
            let (left, right) = (json!({"body": {member: 1}}), json!({"body": {member: 2}}));
            let path = format!("/body/{member}");
            let found = Difference { path, expected: Some(json!(1)), got: Some(json!(2)) };
            report.add(&subject(target), verdict(&subject(target), &rules, left, right, vec![found]));
        }
        report.add(&subject("/api"), Verdict::Equal);
        report.add(&subject("/api"), Verdict::Skew);
        assert!(!report.is_clean());
        report.add(&subject("/api"), Verdict::Failed("503: eyJh.eyJp.c2ln".to_owned()));
        report.skip("watches");
        let json = report.json();
        let counts = ["requests", "equal", "explained", "unexplained", "skew", "failed"]
            .map(|name| json[name].as_u64().unwrap());
        assert_eq!(counts, [6, 1, 1, 2, 1, 1]);
        let cause = &json["causes"]["list pods: /body/<b>"];
        assert_eq!((&cause["count"], cause["examples"].as_array().unwrap().len()), (&json!(2), 2));
        let explanation = &json["causes"]["explained: known"]["explanation"];
        assert_eq!(explanation["section"], "docs/known-gaps.md#different-answers");

        let (text, html) = (report.text(), report.html());
        assert!(text.contains("6 requests: 1 equal, 1 explained, 2 unexplained, 1 skew, 1 failed"), "{text}");
        assert!(
            text.contains("2 x list pods: /body/<b>\n  GET /api/v1/pods\n    /body/<b>: expected 1, got 2"),
            "{text}"
        );
        assert!(html.contains("/body/&lt;b&gt;") && !html.contains("<b>"), "{html}");
        assert!(!text.contains("eyJh.eyJp.c2ln") && text.contains("<masked>"), "{text}");
    }

    #[test]
    fn reports_without_differences_are_clean() {
        let mut report = Report::new(["a:1".to_owned(), "b:2".to_owned()]);
        report.add(&Subject::parse(Outgoing::empty("GET", "/api")).unwrap(), Verdict::Equal);
        assert!(report.is_clean() && report.html().contains("Unexplained differences: 0"));
    }
}
