// Command token-verifier is the authentication webhook of a kube-apiserver in a
// test. It checks EKS bearer tokens with aws-iam-authenticator's own verifier;
// the STS call which that verifier makes ends in this process (sts.go).
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"sigs.k8s.io/aws-iam-authenticator/pkg/token"
)

// Environment variables stand in for the credential flags, so that secrets need
// not show in the list of processes.
type options struct {
	listen, addressFile, cluster, region, roleARN, group string
	credentials                                          credentials
}

func parseOptions() options {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to serve on")
	flag.StringVar(&o.addressFile, "address-file", "", "file to write the bound URL to")
	flag.StringVar(&o.cluster, "cluster", "", "name of the EKS cluster that tokens must be signed for")
	flag.StringVar(&o.region, "region", "us-east-1", "Region of the STS endpoint that tokens must be signed for")
	flag.StringVar(&o.roleARN, "role-arn", "arn:aws:iam::123456789012:role/cloud-map-sync", "role whose credentials these are")
	flag.StringVar(&o.group, "group", "cloud-map-sync", "Kubernetes group of that role")
	flag.StringVar(&o.credentials.accessKeyID, "access-key-id", os.Getenv("AWS_ACCESS_KEY_ID"), "defaults to $AWS_ACCESS_KEY_ID")
	flag.StringVar(&o.credentials.secretAccessKey, "secret-access-key", os.Getenv("AWS_SECRET_ACCESS_KEY"), "defaults to $AWS_SECRET_ACCESS_KEY")
	flag.StringVar(&o.credentials.sessionToken, "session-token", os.Getenv("AWS_SESSION_TOKEN"), "defaults to $AWS_SESSION_TOKEN")
	flag.Parse()
	return o
}

func main() {
	if err := serve(parseOptions()); err != nil {
		log.Fatal(err)
	}
}

func serve(o options) error {
	if o.cluster == "" || o.credentials.accessKeyID == "" || o.credentials.secretAccessKey == "" {
		return fmt.Errorf("--cluster, --access-key-id and --secret-access-key are needed")
	}
	reviewer, err := newReviewer(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	if err := announce("http://"+listener.Addr().String()+"/authenticate", o.addressFile); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /authenticate", reviewer)
	return http.Serve(listener, mux)
}

// newReviewer replaces the process's default transport: the verifier has none of
// its own, and nothing else here makes requests.
func newReviewer(o options) (*reviewer, error) {
	sts, err := newSecurityTokenService(o.region, o.roleARN, o.credentials)
	if err != nil {
		return nil, err
	}
	http.DefaultTransport = sts
	return &reviewer{
		verifier: token.NewVerifier(o.cluster, sts.partition, o.region),
		roleARN:  sts.role.canonicalARN(),
		group:    o.group,
	}, nil
}

// announce writes the file under another name first: who waits for it must
// never read half of it.
func announce(url, addressFile string) error {
	if addressFile != "" {
		if err := os.WriteFile(addressFile+".new", []byte(url), 0o600); err != nil {
			return err
		}
		if err := os.Rename(addressFile+".new", addressFile); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{"url": url})
}
