// Command kubelet is a node without containers, for tests whose pods only ask for names and connect to Services.
//
//	kubelet   binds pods to its node and says that they run (pods.go), and carries out in a process of this
//	          machine what somebody executes in one (exec.go); it puts the next two on the PATH there
//	nslookup  asks the cluster's DNS (nslookup.go)
//	nc        takes the way that kube-proxy gives a connection, to a pod that does not run (nc.go, service_proxy.go)
//
// The name by which it is called says which of them it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// What the kubelet tells the programs that it starts.
const (
	nodeVariable       = "NODE_NAME"
	kubeconfigVariable = "KUBECONFIG"
	// Where the cluster's DNS listens: address and port.
	nameserverVariable = "NAMESERVER"
	// The kubeconfigs of the clusters whose pods are in one network, separated as a PATH is.
	networkVariable = "POD_NETWORK"
)

func main() {
	arguments := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case "nslookup":
		os.Exit(nslookup(arguments))
	case "nc":
		os.Exit(nc(arguments))
	default:
		log.Fatal(kubelet(arguments))
	}
}

type options struct {
	node, kubeconfig, nameserver, network string
	certificate, key, clientAuthority     string
	ranges                                []netip.Prefix
}

func parseOptions(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("kubelet", flag.ExitOnError)
	flags.StringVar(&o.node, "node", "", "name of the node")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the cluster of the node, as administrator")
	flags.StringVar(&o.nameserver, "nameserver", "", "address and port of the cluster's DNS")
	flags.StringVar(&o.network, "pod-network", "", "kubeconfigs of the clusters whose pods are in one network, separated as a PATH is")
	flags.StringVar(&o.certificate, "tls-cert-file", "", "certificate to serve with")
	flags.StringVar(&o.key, "tls-private-key-file", "", "its key")
	flags.StringVar(&o.clientAuthority, "client-ca-file", "", "certificate that signed the API server's, for requests to this kubelet")
	ranges := flags.String("pod-ranges", "", "ranges of the addresses of pods, one for each family")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*ranges, ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return o, fmt.Errorf("--pod-ranges: %w", err)
		}
		o.ranges = append(o.ranges, prefix)
	}
	if o.node == "" || o.kubeconfig == "" || o.clientAuthority == "" {
		return o, errors.New("--node, --kubeconfig and --client-ca-file are needed")
	}
	return o, nil
}

func kubelet(arguments []string) error {
	o, err := parseOptions(arguments)
	if err != nil {
		return err
	}
	client, err := connect(o.kubeconfig)
	if err != nil {
		return err
	}
	pods := newPods(client, o.node, o.ranges)
	port, serve, err := listen(o, pods)
	if err != nil {
		return err
	}
	if err := register(context.Background(), client, o.node, port); err != nil {
		return fmt.Errorf("registering the node %s: %w", o.node, err)
	}
	go pods.tend()
	return serve()
}

// connect has no limit of its own on requests: a suite waits seconds for a pod.
func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}
