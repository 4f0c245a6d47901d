package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// patience with a server of this machine.
const patience = 2 * time.Second

// nslookup asks for the records of a name and answers in the words of BIND's program of this name.
func nslookup(arguments []string) int {
	flags := flag.NewFlagSet("nslookup", flag.ExitOnError)
	kind := flags.String("type", "A", "A, AAAA or SRV")
	_ = flags.Parse(arguments)
	if err := look(os.Stdout, os.Getenv(nameserverVariable), *kind, flags.Arg(0)); err != nil {
		fmt.Printf("** server can't find %s: %v\n", strings.TrimSuffix(flags.Arg(0), "."), err)
		return 1
	}
	return 0
}

func look(out io.Writer, nameserver, kind, name string) error {
	host, port, err := net.SplitHostPort(nameserver)
	if err != nil {
		return fmt.Errorf("%s: %w", nameserverVariable, err)
	}
	fmt.Fprintf(out, "Server:\t\t%s\nAddress:\t%s#%s\n\n", host, host, port)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resolver := resolver(nameserver)
	shown := strings.TrimSuffix(name, ".")
	switch kind {
	case "A", "AAAA":
		addresses, err := resolve(ctx, resolver, kind, name)
		if err != nil {
			return err
		}
		for _, address := range addresses {
			fmt.Fprintf(out, "Name:\t%s\nAddress: %s\n", shown, address)
		}
	case "SRV":
		_, records, err := resolver.LookupSRV(ctx, "", "", absolute(name))
		if err != nil {
			return reason(err)
		}
		for _, record := range records {
			fmt.Fprintf(out, "%s\tservice = %d %d %d %s\n", shown, record.Priority, record.Weight, record.Port, record.Target)
		}
	default:
		return fmt.Errorf("the type %q is not known here", kind)
	}
	return nil
}

// resolve asks for the A or AAAA records of a name.
func resolve(ctx context.Context, resolver *net.Resolver, kind, name string) ([]netip.Addr, error) {
	network := "ip4"
	if kind == "AAAA" {
		network = "ip6"
	}
	addresses, err := resolver.LookupNetIP(ctx, network, absolute(name))
	if err != nil {
		return nil, reason(err)
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, nil
}

// resolver asks this server, whatever the machine's own are.
func resolver(nameserver string) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, nameserver)
		},
	}
}

// absolute keeps the machine's search list out.
func absolute(name string) string {
	return strings.TrimSuffix(name, ".") + "."
}

func reason(err error) error {
	var failure *net.DNSError
	if errors.As(err, &failure) && failure.IsNotFound {
		return errors.New("NXDOMAIN")
	}
	return err
}
