//! The container of a stream.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, Pod, PodSpec};
use binnacle_meta::Status;
use binnacle_registry::object;
use binnacle_schema::Value;

/// Returns the requested container, or the only container of the pod.
pub(super) fn choose<'a>(requested: &'a str, pod: &'a Value) -> Result<&'a str, Status> {
    let pod_name = object::name(pod);
    let pod = FieldRef::<Pod>::root(pod);
    let spec = pod.at(Pod::SPEC);
    let containers = spec.at(PodSpec::CONTAINERS);
    // Ephemeral containers have the same fields as other containers.
    let lists = [spec.at(PodSpec::INIT_CONTAINERS), containers, spec.at(PodSpec::EPHEMERAL_CONTAINERS).cast()];
    let name = |container: FieldRef<'_, 'a, Container>| container.at(Container::NAME).str();
    let all = || lists.iter().flat_map(FieldRef::items).map(name);
    if !requested.is_empty() {
        return match all().any(|name| name == requested) {
            true => Ok(requested),
            false => Err(Status::bad_request(format!("container {requested} is not valid for pod {pod_name}"))),
        };
    }
    match (containers.len(), containers.item(0)) {
        (1, Some(only)) => Ok(name(only)),
        (0, _) => Err(Status::bad_request(format!("a container name must be specified for pod {pod_name}"))),
        _ => {
            let names = all().collect::<Vec<_>>().join(" ");
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{names}]"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn chooses_requested_or_only_container() {
        let pod = |containers: &[&str]| {
            let containers: Vec<Value> = containers.iter().map(|name| value!({"name": (*name)})).collect();
            value!({
                "metadata": {"name": "p"},
                "spec": {
                    "initContainers": [{"name": "init"}],
                    "containers": (Value::List(containers)),
                    "ephemeralContainers": [{"name": "debug"}]
                }
            })
        };
        for (requested, containers, want) in [
            ("", &["a"][..], Ok("a")),
            ("a", &["a"], Ok("a")),
            ("init", &["a"], Ok("init")),
            ("debug", &["a"], Ok("debug")),
            ("x", &["a"], Err("container x is not valid for pod p")),
            ("", &["a", "b"], Err("a container name must be specified for pod p, choose one of: [init a b debug]")),
            ("", &[], Err("a container name must be specified for pod p")),
        ] {
            let pod = pod(containers);
            let chosen = choose(requested, &pod);
            assert_eq!(chosen.as_ref().map_err(Status::message), want.as_ref().map_err(|text| *text), "{requested}");
        }
    }
}
