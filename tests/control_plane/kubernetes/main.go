// Command kubernetes is kube-apiserver and kube-controller-manager in one
// binary: they share most of their packages, so they are linked once. The
// first argument says which one to run, the rest are that program's own flags.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Building a command has side effects on process-wide registries, so only the
// chosen one is built.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kubernetes kube-apiserver|kube-controller-manager [flags]")
		os.Exit(2)
	}
	command := programs[os.Args[1]]()
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command))
}
