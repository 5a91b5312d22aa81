// What containers of tests run: without arguments it waits for the signal to end, as the pause of a pod does; with "serve" it answers on port 8080.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "pid %d on %s\n", os.Getpid(), os.Getenv("HOSTNAME")) })
		go func() {
			fmt.Println(http.ListenAndServe(":8080", nil))
			os.Exit(1)
		}()
		fmt.Println("serving")
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
