// Command etcd is the etcd server as its own release builds it: `go install`
// refuses that module because its go.mod has replace directives.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
