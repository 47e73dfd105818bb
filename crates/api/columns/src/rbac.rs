//! The rbac.authorization.k8s.io group. Roles have no columns of their own.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Description, Kind, cells, string, text};
use crate::format::join;
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("ClusterRoleBinding", &CLUSTER_ROLE_BINDING), ("RoleBinding", &ROLE_BINDING)];

const CLUSTER_ROLE_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("Role", role_ref("io.k8s.api.rbac.v1.ClusterRoleBinding")),
        AGE,
        string("Users", text("Users in the clusterRoleBinding")).wide(),
        string("Groups", text("Groups in the clusterRoleBinding")).wide(),
        string("ServiceAccounts", text("ServiceAccounts in the clusterRoleBinding")).wide(),
    ],
    binding,
);

const ROLE_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("Role", role_ref("io.k8s.api.rbac.v1.RoleBinding")),
        AGE,
        string("Users", text("Users in the roleBinding")).wide(),
        string("Groups", text("Groups in the roleBinding")).wide(),
        string("ServiceAccounts", text("ServiceAccounts in the roleBinding")).wide(),
    ],
    binding,
);

/// Returns the description of `roleRef` in v1beta1, which the column still has: it lacked the last sentence.
const fn role_ref(definition: &'static str) -> Description {
    Description::FieldWithout { definition, field: "roleRef", ending: " This field is immutable." }
}

fn binding(object: &Value, now: Now) -> Cells {
    let subjects = object.list_at(&["subjects"]);
    let names = |kind: &str| {
        let subjects = subjects.iter().filter(|subject| subject.str_at(&["kind"]) == kind);
        join(subjects.map(|subject| subject.str_at(&["name"])), ", ")
    };
    let accounts = subjects.iter().filter(|subject| subject.str_at(&["kind"]) == "ServiceAccount");
    let accounts: Vec<String> =
        accounts.map(|account| format!("{}/{}", account.str_at(&["namespace"]), account.str_at(&["name"]))).collect();
    cells![
        name(object),
        format!("{}/{}", object.str_at(&["roleRef", "kind"]), object.str_at(&["roleRef", "name"])),
        created(object, now),
        names("User"),
        names("Group"),
        accounts.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn bindings() {
        let cases = [
            (value!({}), value!(["", "/", "<unknown>", "", "", ""])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "roleRef": {"kind": "ClusterRole", "name": "view"},
                    "subjects": [
                        {"kind": "User", "name": "u1"},
                        {"kind": "ServiceAccount", "namespace": "ns", "name": "s1"},
                        {"kind": "Group", "name": "g1"},
                        {"kind": "User", "name": "u2"},
                        {"kind": "ServiceAccount", "name": "s2"},
                        {"kind": "Other", "name": "o"},
                    ],
                }),
                value!(["a", "ClusterRole/view", "<unknown>", "u1, u2", "g1", "ns/s1, /s2"]),
            ),
        ];
        check_cells("rbac.authorization.k8s.io", "RoleBinding", cases.clone());
        check_cells("rbac.authorization.k8s.io", "ClusterRoleBinding", cases);
    }
}
