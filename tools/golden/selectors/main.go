// Command selectors prints what the real Kubernetes code makes of tolerations, node affinity
// terms and label selectors, as JSON.
//
// Run it from this directory, for each table:
//
//	go run . tolerations > ../../../tests/golden/tolerations.json
//	go run . nodeaffinity > ../../../tests/golden/nodeaffinity.json
//	go run . labelselectors > ../../../tests/golden/labelselectors.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// table is what every golden file looks like: some objects, and one row of answers per input.
type table struct {
	name    string
	objects []any
	rows    []any
}

func main() {
	tables := map[string]func() []table{
		"tolerations": tolerations, "nodeaffinity": nodeAffinity, "labelselectors": labelSelectors,
	}
	if len(os.Args) != 2 || tables[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go run . tolerations|nodeaffinity|labelselectors")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, "{")
	for i, part := range tables[os.Args[1]]() {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		write(out, part.name, part.objects)
		if part.rows != nil {
			fmt.Fprint(out, ",")
			write(out, part.name+"Rows", part.rows)
		}
	}
	fmt.Fprint(out, "\n}\n")
}

// write prints one list with one element per line, so that a change is readable.
func write(out *bufio.Writer, name string, list []any) {
	fmt.Fprintf(out, "\n%q: [", name)
	for i, element := range list {
		line, err := json.Marshal(element)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", line)
	}
	fmt.Fprint(out, "\n]")
}
