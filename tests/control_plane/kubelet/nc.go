package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nc finds the pod to which a connection over TCP would lead and says what it answers. No packet is sent: the
// pod's address is nobody's.
func nc(arguments []string) int {
	flags := flag.NewFlagSet("nc", flag.ExitOnError)
	flags.Bool("v", false, "say what becomes of it, as is done in any case")
	flags.Int("w", 0, "seconds to wait; there is nothing to wait for")
	flags.Bool("4", false, "addresses of IPv4, as without it")
	isSix := flags.Bool("6", false, "addresses of IPv6")
	_ = flags.Parse(arguments)
	host, port := flags.Arg(0), flags.Arg(1)
	kind := "A"
	if *isSix {
		kind = "AAAA"
	}
	answer, err := call(context.Background(), kind, host, port)
	if err != nil {
		fmt.Fprintf(os.Stderr, "nc: connect to %s port %s (tcp) failed: %v\n", host, port, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "Connection to %s %s port [tcp/*] succeeded!\n", host, port)
	fmt.Println(answer)
	return 0
}

func call(ctx context.Context, kind, host, port string) (string, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		addresses, err := resolve(ctx, resolver(os.Getenv(nameserverVariable)), kind, host)
		if err != nil {
			return "", err
		}
		address = addresses[0]
	}
	endpoint, err := endpointOf(ctx, netip.AddrPortFrom(address, uint16(number)))
	if err != nil {
		return "", err
	}
	return answerOf(ctx, endpoint)
}

// listening is where a container of the conformance suite listens, by its arguments for socat.
var listening = regexp.MustCompile(`\bTCP6?-LISTEN:(\d+)\b`)

// answerOf is what the pod at an address says: its first address, as those of the suite do.
func answerOf(ctx context.Context, endpoint netip.AddrPort) (string, error) {
	for _, kubeconfig := range filepath.SplitList(os.Getenv(networkVariable)) {
		client, err := connect(kubeconfig)
		if err != nil {
			return "", err
		}
		all, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, pod := range all.Items {
			if pod.Status.Phase != corev1.PodRunning || !has(&pod, endpoint.Addr()) {
				continue
			}
			if !listens(&pod, endpoint.Port()) {
				return "", fmt.Errorf("%s: Connection refused", endpoint)
			}
			return "pod ip " + pod.Status.PodIPs[0].IP, nil
		}
	}
	return "", errors.New("Operation timed out")
}

func has(pod *corev1.Pod, address netip.Addr) bool {
	return slices.ContainsFunc(pod.Status.PodIPs, func(it corev1.PodIP) bool {
		own, err := netip.ParseAddr(it.IP)
		return err == nil && own == address
	})
}

func listens(pod *corev1.Pod, port uint16) bool {
	wanted := strconv.Itoa(int(port))
	for _, container := range pod.Spec.Containers {
		for _, argument := range container.Args {
			for _, found := range listening.FindAllStringSubmatch(argument, -1) {
				if found[1] == wanted {
					return true
				}
			}
		}
	}
	return false
}
