#!/usr/bin/env bash
# Builds the programs of the real control plane: etcd, kubernetes (kube-apiserver
# and kube-controller-manager), token-verifier and, if asked for, those of a node: kubelet
# and coredns; and copies the CustomResourceDefinitions of the Multi-Cluster Services API
# to where they are. What is up to date is skipped.
#
#   build.sh [--controllers] [--node]
#
# Ends with status 3 where Go is missing or too old.
#
# CLOUD_MAP_SYNC_CONTROL_PLANE  where the binaries go (default: target/control-plane)
# KUBEBUILDER_ASSETS            a folder with etcd and kube-apiserver: those two are
#                               taken from there, and `kubernetes` is only built for
#                               the controllers, when --controllers asks for them.
set -euo pipefail

sources=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=${CLOUD_MAP_SYNC_CONTROL_PLANE:-$sources/../../target/control-plane}
release=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$sources/kubernetes/go.mod")

# The Go that is here does it, or says why not; no other toolchain is downloaded.
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0

up_to_date() { # binary, module folder
    [[ -x $1 && -z $(find "$2" "$sources/build.sh" -newer "$1" -type f ! -name '*_test.go' -print -quit) ]]
}

# CoreDNS wants the newest Go of all, and nobody should find that out when the rest is built.
demand_go() { # what for
    if ! (cd "$sources/coredns" && go list -m >/dev/null); then
        echo "$1 needs Go 1.25 or newer on the PATH" >&2
        exit 3
    fi
}

build() { # binary name, module folder, linker flags
    local binary=$binaries/$1 module=$sources/$2
    if up_to_date "$binary" "$module"; then
        return
    fi
    demand_go "building $1"
    echo "building $1 in $binaries" >&2
    # Renamed into place, so that whoever runs the binary meanwhile never finds half of it.
    (cd "$module" && go build -ldflags "-s -w ${3:-}" -o "$binary.$$" .)
    mv "$binary.$$" "$binary"
}

# They are files of a Go module, which nothing is built from.
copy_multi_cluster_crds() {
    local folder=$binaries/multi_cluster module=$sources/multi_cluster of_module
    if [[ -f $folder/go.mod ]] && cmp --silent "$module/go.mod" "$folder/go.mod"; then
        return
    fi
    demand_go "getting the CRDs of the Multi-Cluster Services API"
    of_module=$(cd "$module" && go list -f '{{.Dir}}' sigs.k8s.io/mcs-api/config/crd)
    mkdir -p "$folder"
    install -m 644 "$of_module"/*.yaml "$folder"
    # Last: it says what the folder is of.
    install -m 644 "$module/go.mod" "$folder"
}

asked_for() { # option, arguments of this script
    [[ " ${*:2} " == *" $1 "* ]]
}

mkdir -p "$binaries"
copy_multi_cluster_crds
build token-verifier token_verifier
if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
    build etcd etcd
fi
if [[ -z ${KUBEBUILDER_ASSETS:-} ]] || asked_for --controllers "$@"; then
    # Without these every client sees the version v0.0.0-master.
    version=k8s.io/component-base/version
    minor=${release#v1.} && minor=${minor%%.*}
    build kubernetes kubernetes \
        "-X $version.gitVersion=$release -X $version.gitMajor=1 -X $version.gitMinor=$minor"
fi
if asked_for --node "$@"; then
    build kubelet kubelet
    build coredns coredns
fi
