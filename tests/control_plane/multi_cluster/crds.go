// Package multicluster has no code: it keeps the module with the CustomResourceDefinitions of the
// Multi-Cluster Services API among its requirements. build.sh copies them from there.
package multicluster

import _ "sigs.k8s.io/mcs-api/config/crd"
