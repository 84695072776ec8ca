// Command scheduling prints what the plugins of the real kube-scheduler make of small random
// clusters, as JSON.
//
// Run it from this directory, for each table:
//
//	go run . filterscores > ../../../tests/golden/filterscores.json
//	go run . preemption > ../../../tests/golden/preemption.json
//	go run . nodefeatures > ../../../tests/golden/nodefeatures.json
//	go run . imagelocality > ../../../tests/golden/imagelocality.json
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	tables := map[string]func(context.Context) []any{
		"filterscores": filterScores, "preemption": preemptions, "nodefeatures": nodeFeatures, "imagelocality": imageLocality,
	}
	if len(os.Args) != 2 || tables[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go run . filterscores|preemption|nodefeatures|imagelocality")
		os.Exit(2)
	}
	klog.SetOutput(os.Stderr)
	metrics.Register()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	// One case per line, so that a change is readable.
	fmt.Fprint(out, "[")
	for i, row := range tables[os.Args[1]](ctx) {
		line, err := json.Marshal(row)
		check(err)
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", line)
	}
	fmt.Fprint(out, "\n]\n")
}
