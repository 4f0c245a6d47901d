module cloud-map-sync/tests/control-plane/multi-cluster

go 1.24.0

require sigs.k8s.io/mcs-api v0.5.2
