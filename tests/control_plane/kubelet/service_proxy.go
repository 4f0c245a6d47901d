package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/proxy"
)

// ofProxy is what kube-proxy watches: no headless Services, and none of another proxy.
const ofProxy = "!" + corev1.IsHeadlessService + ",!service.kubernetes.io/service-proxy-name"

// endpointOf is where the node's kube-proxy sends a connection over TCP to an address and port: one of the endpoints
// of the Service that has them, each as likely as another. Any other address stays as it is.
func endpointOf(ctx context.Context, target netip.AddrPort) (netip.AddrPort, error) {
	client, err := connect(os.Getenv(kubeconfigVariable))
	if err != nil {
		return target, err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, os.Getenv(nodeVariable), metav1.GetOptions{})
	if err != nil {
		return target, err
	}
	services, endpoints, err := rules(ctx, client, node.Name, target.Addr())
	if err != nil {
		return target, err
	}
	isService := false
	for name, service := range services {
		address, ok := netip.AddrFromSlice(service.ClusterIP())
		if !ok || address.Unmap() != target.Addr() {
			continue
		}
		isService = true
		if service.Port() != int(target.Port()) || service.Protocol() != corev1.ProtocolTCP {
			continue
		}
		_, _, reachable, _ := proxy.CategorizeEndpoints(endpoints[name], service, node.Name, node.Labels)
		if len(reachable) == 0 {
			return target, fmt.Errorf("%s has no endpoints: Connection refused", name)
		}
		return netip.ParseAddrPort(reachable[rand.IntN(len(reachable))].String())
	}
	if isService {
		return target, errors.New("the Service has no such port: Operation timed out")
	}
	return target, nil
}

// rules is what kube-proxy knows of the Services and their endpoints, in the family of an address.
func rules(ctx context.Context, client kubernetes.Interface, node string, address netip.Addr) (proxy.ServicePortMap, proxy.EndpointsMap, error) {
	family := corev1.IPv4Protocol
	if address.Is6() {
		family = corev1.IPv6Protocol
	}
	watched := metav1.ListOptions{LabelSelector: ofProxy}
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, watched)
	if err != nil {
		return nil, nil, err
	}
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, watched)
	if err != nil {
		return nil, nil, err
	}
	ofServices := proxy.NewServiceChangeTracker(family, nil, nil)
	for i := range services.Items {
		ofServices.Update(nil, &services.Items[i])
	}
	ofEndpoints := proxy.NewEndpointsChangeTracker(family, node, nil, nil)
	for i := range slices.Items {
		// Those of headless imports are of no Service.
		if slices.Items[i].Labels[discoveryv1.LabelServiceName] != "" {
			ofEndpoints.EndpointSliceUpdate(&slices.Items[i], false)
		}
	}
	servicePorts, endpointsMap := proxy.ServicePortMap{}, proxy.EndpointsMap{}
	servicePorts.Update(ofServices)
	endpointsMap.Update(ofEndpoints)
	return servicePorts, endpointsMap, nil
}
