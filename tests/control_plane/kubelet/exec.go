package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	clientremotecommand "k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// The node is this machine, and nobody else's.
const loopback = "127.0.0.1"

// As the kubelet of Kubernetes has them.
const (
	idleTimeout           = 4 * time.Hour
	streamCreationTimeout = remotecommandconsts.DefaultStreamCreationTimeout
)

// executor runs a command on this machine, as what the pod's containers would have run.
type executor struct {
	environment []string
}

func (e *executor) ExecInContainer(ctx context.Context, _ string, _ types.UID, _ string, command []string, in io.Reader, out, err io.WriteCloser, _ bool, _ <-chan clientremotecommand.TerminalSize, _ time.Duration) error {
	process := utilexec.New().CommandContext(ctx, command[0], command[1:]...)
	process.SetEnv(e.environment)
	if in != nil {
		process.SetStdin(in)
	}
	process.SetStdout(out)
	if err != nil {
		process.SetStderr(err)
	} else {
		process.SetStderr(out)
	}
	return process.Run()
}

// listen takes a port. Only the API server gets further than the handshake: what it asks for is executed.
func listen(o options, pods *pods) (int32, func() error, error) {
	authority, err := os.ReadFile(o.clientAuthority)
	if err != nil {
		return 0, nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		return 0, nil, fmt.Errorf("%s holds no certificate", o.clientAuthority)
	}
	environment, err := environment(o)
	if err != nil {
		return 0, nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/exec/{namespace}/{pod}/{container}", serveExec(pods, &executor{environment}))
	server := &http.Server{
		Handler: mux,
		// SPDY upgrades a connection of HTTP/1.1.
		TLSConfig: &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"}},
	}
	serve := func() error { return server.ServeTLS(listener, o.certificate, o.key) }
	return int32(listener.Addr().(*net.TCPAddr).Port), serve, nil
}

func serveExec(pods *pods, executor *executor) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod, runs := pods.runsHere(r.PathValue("namespace"), r.PathValue("pod"))
		command := r.URL.Query()["command"]
		if !runs || len(command) == 0 {
			http.Error(w, "no such pod runs here, or no command was given", http.StatusNotFound)
			return
		}
		streams, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, executor, pod.Name, pod.UID, r.PathValue("container"), command, streams,
			idleTimeout, streamCreationTimeout, remotecommandconsts.SupportedStreamingProtocols)
	}
}

// environment links nslookup and nc to this program in a folder where it runs, and puts that first on the PATH.
func environment(o options) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs("programs")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	for _, program := range []string{"nslookup", "nc"} {
		if err := os.Symlink(self, filepath.Join(folder, program)); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	path := strings.Join([]string{folder, os.Getenv("PATH")}, string(os.PathListSeparator))
	return []string{
		"PATH=" + path,
		nodeVariable + "=" + o.node,
		kubeconfigVariable + "=" + o.kubeconfig,
		nameserverVariable + "=" + o.nameserver,
		networkVariable + "=" + o.network,
	}, nil
}
