// Calls each name ten times a second with net/http as it is: connections are kept alive, and a new one resolves the name.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func call(client *http.Client, host string) string {
	response, err := client.Get("http://" + host + "/")
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\t", " ")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func repeat(host string) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	for {
		began := time.Now()
		outcome := call(client, host)
		ended := time.Now()
		fmt.Printf("%s\t%d\t%d\t%s\n", host, began.UnixMilli(), ended.UnixMilli(), outcome)
		time.Sleep(100*time.Millisecond - ended.Sub(began))
	}
}

func main() {
	for _, host := range os.Args[1:] {
		go repeat(host)
	}
	select {}
}
