// Whose CustomResourceDefinitions the files in deploy/gitops and deploy/forwarders are applied with. Nothing is built from them.
module cloud-map-sync/tests/gitops

go 1.25.0

require (
	github.com/argoproj/argo-cd/v3 v3.2.1
	github.com/argoproj/argo-events v1.9.7
	github.com/fluxcd/kustomize-controller v1.7.3
	github.com/fluxcd/source-controller v1.7.3
	knative.dev/eventing v0.47.0
)
