// Command storage prints what the real Kubernetes code makes of volumes, as JSON.
//
// Run it from this directory, for each table:
//
//	go run . csitranslation > ../../../tests/golden/csitranslation.json
//	go run . volumematch > ../../../tests/golden/volumematch.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	tables := map[string]func() []any{"csitranslation": translations, "volumematch": matches}
	if len(os.Args) != 2 || tables[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go run . csitranslation|volumematch")
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	// One case per line, so that a change is readable.
	fmt.Fprint(out, "[")
	for i, row := range tables[os.Args[1]]() {
		line, err := json.Marshal(row)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", line)
	}
	fmt.Fprint(out, "\n]\n")
}
