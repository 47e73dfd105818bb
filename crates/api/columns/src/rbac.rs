//! The rbac.authorization.k8s.io group. Roles have no columns of their own.

use binnacle_fields::FieldRef;
use binnacle_fields::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use binnacle_fields::types::{Field, Message};

use crate::Now;
use crate::columns::{Cells, Columns, Description, Kind, cells, string, text};
use crate::format::join;
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("ClusterRoleBinding", &CLUSTER_ROLE_BINDING), ("RoleBinding", &ROLE_BINDING)];

const CLUSTER_ROLE_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("Role", role_ref(ClusterRoleBinding::ROLE_REF)),
        AGE,
        string("Users", text("Users in the clusterRoleBinding")).wide(),
        string("Groups", text("Groups in the clusterRoleBinding")).wide(),
        string("ServiceAccounts", text("ServiceAccounts in the clusterRoleBinding")).wide(),
    ],
    // It has the same fields as a RoleBinding.
    |object, now| binding(FieldRef::root(object), now),
);

const ROLE_BINDING: Columns = Columns::new(
    &[
        NAME,
        string("Role", role_ref(RoleBinding::ROLE_REF)),
        AGE,
        string("Users", text("Users in the roleBinding")).wide(),
        string("Groups", text("Groups in the roleBinding")).wide(),
        string("ServiceAccounts", text("ServiceAccounts in the roleBinding")).wide(),
    ],
    |object, now| binding(FieldRef::root(object), now),
);

/// Returns the description of `roleRef` in v1beta1, which the column still has: it lacked the last sentence.
const fn role_ref<M: Message>(field: Field<M, RoleRef>) -> Description {
    Description::FieldWithout { definition: M::DEFINITION, field: field.name(), ending: " This field is immutable." }
}

fn binding(binding: FieldRef<RoleBinding>, now: Now) -> Cells {
    let (role, subjects) = (binding.at(RoleBinding::ROLE_REF), binding.at(RoleBinding::SUBJECTS));
    let of_kind = |kind: &'static str| subjects.items().filter(move |subject| subject.at(Subject::KIND).str() == kind);
    let names = |kind| join(of_kind(kind).map(|subject| subject.at(Subject::NAME).str()), ", ");
    let accounts: Vec<String> = of_kind("ServiceAccount")
        .map(|account| format!("{}/{}", account.at(Subject::NAMESPACE).str(), account.at(Subject::NAME).str()))
        .collect();
    cells![
        name(binding),
        format!("{}/{}", role.at(RoleRef::KIND).str(), role.at(RoleRef::NAME).str()),
        created(binding, now),
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
    fn prints_role_bindings() {
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
