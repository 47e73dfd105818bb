//! The legacy log format (`--audit-log-format=legacy`): a line of text with some of an event's fields.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_meta::{Text, Time, go_quote};

use super::Event;

/// Formats the line, without the newline.
pub(crate) fn line(event: &Event) -> String {
    let user = event.user.as_deref().filter(|user| !user.name.is_empty());
    let name = user.map_or("<none>", |user| user.name.as_str());
    let groups =
        user.filter(|user| !user.groups.is_empty()).map_or("<none>".to_owned(), |user| quote_all(&user.groups));
    let (as_user, as_groups) = match &event.impersonated {
        Some(impersonated) => (impersonated.user.name.as_str(), quote_all(&impersonated.user.groups)),
        None => ("<self>", "<lookup>".to_owned()),
    };
    let namespace =
        event.object.as_ref().map(|object| object.namespace.as_str()).filter(|n| !n.is_empty()).unwrap_or("<none>");
    let response = event.status.as_ref().map_or("<deferred>".to_owned(), |status| status.code().to_string());
    let ip = event.source_ips.first().map_or("<unknown>".to_owned(), ToString::to_string);
    let received = format_rfc3339_nanos(event.received);
    format!(
        "{received} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} \
         uri={} response=\"{response}\"",
        go_quote(&event.audit_id),
        go_quote(event.stage.as_str()),
        go_quote(&ip),
        go_quote(&event.verb),
        go_quote(name),
        go_quote(&groups),
        go_quote(as_user),
        go_quote(&as_groups),
        go_quote(&event.user_agent),
        go_quote(namespace),
        go_quote(&event.request_uri),
    )
}

/// Formats a time like Go's `RFC3339Nano`: with as many fractional digits as it needs.
fn format_rfc3339_nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = Time::from_unix(since.as_secs() as i64, 0).to_string();
    match format!("{:09}", since.subsec_nanos()).trim_end_matches('0') {
        "" => seconds,
        digits => format!("{}.{digits}Z", seconds.trim_end_matches('Z')),
    }
}

fn quote_all(texts: &[Text]) -> String {
    texts.iter().map(|text| go_quote(text)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::tests::full_event;
    use super::*;

    #[test]
    fn formats_events_with_and_without_optional_members() {
        assert_eq!(
            line(&full_event()),
            r#"2023-11-14T22:13:20.123456Z AUDIT: id="id-1" stage="ResponseComplete" ip="10.0.0.1" method="create" user="jane" groups="\"dev\",\"system:authenticated\"" as="bob" asgroups="\"x\"" user-agent="kubectl/v1.36" namespace="n" uri="/api/v1/namespaces/n/pods?a=1&b=2" response="404""#
        );
        let bare =
            Event { user: None, impersonated: None, source_ips: [].into(), object: None, status: None, ..full_event() };
        assert_eq!(
            line(&bare),
            r#"2023-11-14T22:13:20.123456Z AUDIT: id="id-1" stage="ResponseComplete" ip="<unknown>" method="create" user="<none>" groups="<none>" as="<self>" asgroups="<lookup>" user-agent="kubectl/v1.36" namespace="<none>" uri="/api/v1/namespaces/n/pods?a=1&b=2" response="<deferred>""#
        );
    }
}
