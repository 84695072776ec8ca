// Command redis is the cache of the tests' ArgoCD: a Redis server that keeps everything in memory
// and needs nothing installed. Its library keeps no clock of its own, so time passes here.
//
//	redis ADDRESS
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const beat = time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: redis ADDRESS")
		os.Exit(2)
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer server.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	ticks := time.NewTicker(beat)
	for {
		select {
		case <-ticks.C:
			server.FastForward(beat)
		case <-end:
			return
		}
	}
}
