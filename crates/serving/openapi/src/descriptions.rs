//! Descriptions that the dependency lacks: of options, which are not part of any object, and of lists.

use binnacle_schema::{Message, Ty};

/// Returns the description of a definition's field from any source.
pub(crate) fn field(definition: &str, field: &str) -> Option<&'static str> {
    let shared =
        || (field == "dryRun").then(|| binnacle_apimachinery::descriptions::field(DELETE_OPTIONS, field)).flatten();
    binnacle_apimachinery::descriptions::field(definition, field).or_else(shared).or_else(|| option(definition, field))
}

/// Returns the description of a list's field; all lists share them.
pub(crate) fn list_field(field: &str) -> Option<&'static str> {
    match field {
        "items" => Some("The objects of the list."),
        _ => binnacle_apimachinery::descriptions::field("io.k8s.apimachinery.pkg.apis.meta.v1.Status", field),
    }
}

/// Returns true if the message is a list of objects.
pub(crate) fn is_list(message: &Message) -> bool {
    let list_meta = |ty: &Ty| ty.message().is_some_and(|message| message.name.ends_with(".ListMeta"));
    let has =
        |name: &str, is: &dyn Fn(&Ty) -> bool| message.fields.iter().any(|field| field.name == name && is(&field.ty));
    has("metadata", &list_meta) && has("items", &|ty| ty.element().is_some())
}

/// Returns the suffix of kube-apiserver's name of a shared parameter: a hash of kube-apiserver's description, which
/// differs from the one here.
pub(crate) fn shared_name(kind: &str, field: &str) -> Option<&'static str> {
    let mut candidates = SHARED_NAMES.iter().filter(|(_, f, _)| *f == field);
    candidates
        .clone()
        .find(|(k, ..)| *k == kind)
        .or_else(|| candidates.find(|(k, ..)| k.is_empty()))
        .map(|(.., name)| *name)
}

fn option(definition: &str, field: &str) -> Option<&'static str> {
    let kind = definition.rsplit('.').next().unwrap_or(definition);
    OPTIONS.iter().find(|(k, f, _)| *f == field && (*k == kind || k.is_empty())).map(|(_, _, description)| *description)
}

/// The only options kind that is also an object.
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Kind, field and description; without a kind, for all options with such a field.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("", "allowWatchBookmarks", "Asks for watch events of type BOOKMARK, which carry nothing but a resource version."),
    ("", "continue", "The token with which the previous page of a list ended."),
    ("", "fieldSelector", "Selects objects by their fields; all of them by default."),
    ("", "labelSelector", "Selects objects by their labels; all of them by default."),
    ("", "limit", "The greatest number of objects in one page of a list."),
    (
        "",
        "resourceVersion",
        "From which resource version the answer may come. See \
         https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions for details.",
    ),
    ("", "resourceVersionMatch", "How resourceVersion is meant in a list: Exact or NotOlderThan."),
    (
        "",
        "sendInitialEvents",
        "Begins a watch with events for the objects that exist, followed by a bookmark that ends them.",
    ),
    ("", "shardSelector", "Selects objects by ranges of a hash, as an expression of shardRange() calls."),
    ("", "timeoutSeconds", "Ends a list or watch after that many seconds."),
    ("", "watch", "Follows the objects instead of listing them: a stream of what is added, modified and deleted."),
    ("", "fieldManager", "The name of whoever makes the changes, under which managed fields are recorded."),
    (
        "",
        "fieldValidation",
        "What becomes of unknown and duplicate fields: Ignore drops them, Warn drops them with a warning, Strict \
         refuses the request. Default is Warn.",
    ),
    ("", "force", "Takes fields that other managers own. Only for apply patches."),
    ("PodLogOptions", "container", "The container whose log is read; needed where the pod has several."),
    ("PodLogOptions", "follow", "Goes on with the log as it grows."),
    ("PodLogOptions", "previous", "Reads the log of the container that ran before."),
    ("PodLogOptions", "sinceSeconds", "Reads what was written in the last seconds."),
    ("PodLogOptions", "timestamps", "Begins every line with the time at which it was written."),
    ("PodLogOptions", "tailLines", "Reads that many lines from the end of the log."),
    ("PodLogOptions", "limitBytes", "Ends the answer after that many bytes."),
    ("PodLogOptions", "insecureSkipTLSVerifyBackend", "Does not verify the serving certificate of the kubelet."),
    ("PodLogOptions", "stream", "Which stream to read: All, Stdout or Stderr."),
    ("", "stdin", "Connects the standard input."),
    ("", "stdout", "Connects the standard output."),
    ("", "stderr", "Connects the standard error stream."),
    ("", "tty", "Gives the process a terminal."),
    ("", "container", "The container to connect to; needed where the pod has several."),
    ("", "command", "The command to execute and its arguments; no shell is involved."),
    ("", "ports", "The ports to forward."),
    ("PodProxyOptions", "path", "The path of the request to the pod."),
    ("NodeProxyOptions", "path", "The path of the request to the node."),
    ("ServiceProxyOptions", "path", "Scheme, port and path of the request to the service."),
];

/// Kind, field and name; without a kind, for all other options with such a field.
const SHARED_NAMES: &[(&str, &str, &str)] = &[
    ("", "allowWatchBookmarks", "HC2hJt-J"),
    ("", "continue", "QfD61s0i"),
    ("", "fieldSelector", "xIcQKXFG"),
    ("", "labelSelector", "5Zw57w4C"),
    ("", "limit", "1NfNmdNH"),
    ("", "resourceVersion", "5WAnf1kx"),
    ("", "resourceVersionMatch", "t8XhRHeC"),
    ("", "sendInitialEvents", "rLXlEK_k"),
    ("", "shardSelector", "Kgyki_3_"),
    ("", "timeoutSeconds", "yvYezaOC"),
    ("", "watch", "XNNPZGbK"),
    ("PatchOptions", "fieldManager", "7c6nTn1T"),
    ("", "fieldManager", "Qy4HdaTW"),
    ("", "force", "tOGGb0Yi"),
    ("PodLogOptions", "container", "1GeXxFDC"),
    ("PodLogOptions", "follow", "9OIXh_2R"),
    ("PodLogOptions", "insecureSkipTLSVerifyBackend", "gM00jVbe"),
    ("PodLogOptions", "limitBytes", "zwd1RXuc"),
    ("PodLogOptions", "previous", "1jxDPu3y"),
    ("PodLogOptions", "sinceSeconds", "vE2NLdnP"),
    ("PodLogOptions", "stream", "l-48cgXv"),
    ("PodLogOptions", "tailLines", "9xQLWHMV"),
    ("PodLogOptions", "timestamps", "c17fW1w_"),
    ("PodExecOptions", "command", "Py3eQybp"),
    ("PodExecOptions", "container", "i5dOmRiM"),
    ("PodExecOptions", "stderr", "W_1TNlWc"),
    ("PodExecOptions", "stdin", "PSzNhyUC"),
    ("PodExecOptions", "stdout", "-EZLRwV1"),
    ("PodExecOptions", "tty", "s0flW37O"),
    ("PodAttachOptions", "container", "_Q-EJ3nR"),
    ("PodAttachOptions", "stderr", "26jJhFUR"),
    ("PodAttachOptions", "stdin", "sEFnN3IS"),
    ("PodAttachOptions", "stdout", "005YMKE6"),
    ("PodAttachOptions", "tty", "g7MlET_l"),
    ("PodPortForwardOptions", "ports", "91KROJmm"),
    ("PodProxyOptions", "path", "oPbzgLUj"),
    ("NodeProxyOptions", "path", "rFDtV0x9"),
    ("ServiceProxyOptions", "path", "QCf0eosM"),
];

#[cfg(test)]
mod tests {
    use binnacle_kinds::tables;

    use super::*;

    #[test]
    fn recognizes_lists() {
        for (name, want) in [
            ("io.k8s.api.core.v1.PodList", true),
            ("io.k8s.api.core.v1.Pod", false),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.Status", false),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList", false),
        ] {
            assert_eq!(tables::message(name).is_some_and(is_list), want, "{name}");
        }
        assert!(["apiVersion", "kind", "metadata", "items"].iter().all(|field| list_field(field).is_some()));
    }

    #[test]
    fn describes_every_option() {
        let options =
            ["List", "Create", "Update", "Patch", "Delete", "PodLog", "PodExec", "PodAttach", "PodPortForward"];
        for kind in options.iter().chain(&["PodProxy", "NodeProxy", "ServiceProxy"]) {
            let message = tables::kind("", "v1", &format!("{kind}Options")).unwrap();
            for option_field in
                message.fields.iter().filter(|field| !matches!(field.name.as_str(), "apiVersion" | "kind"))
            {
                // Not a parameter, because it is a time.
                if option_field.name != "sinceTime" {
                    assert!(field(&message.name, &option_field.name).is_some(), "{kind} {}", option_field.name);
                }
            }
        }
    }
}
