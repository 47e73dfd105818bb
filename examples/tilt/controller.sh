# A controller in a few lines: it gives each boat a berth.
set -eu
kubectl wait --for=condition=Established crd/boats.harbor.example >/dev/null
kubectl get boats --all-namespaces --watch --output=jsonpath='{.metadata.namespace} {.metadata.name} {.spec.length} {.status.berth}{"\n"}' |
    while read -r namespace name length berth; do
        [ -z "$berth" ] || continue
        kubectl patch boat "$name" --namespace="$namespace" --subresource=status --type=merge --patch="{\"status\":{\"berth\":\"quay-$((length / 20))\"}}"
    done
