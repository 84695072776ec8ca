// Command cel prints what the CEL environment of Dynamic Resource Allocation makes of selectors, as
// JSON.
//
// Run it from this directory:
//
//	go run . > ../../../tests/golden/cel.json
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

//go:embed devices.json
var devicesJSON []byte

//go:embed selectors.txt
var selectorsText string

// device is a Device of a ResourceSlice, with its driver.
type device struct {
	Driver string `json:"driver"`
	resourceapi.Device
}

// row is one selector. Answers has a letter per device: t (matches), f (does not match) or e (an
// error). Errors has the texts of the errors without repetitions. A selector that does not compile
// has Compile only.
type row struct {
	Selector string   `json:"selector"`
	Answers  string   `json:"answers,omitempty"`
	Errors   []string `json:"errors,omitempty"`
	Compile  string   `json:"compile,omitempty"`
}

func main() {
	var raw []json.RawMessage
	var devices []device
	fail(json.Unmarshal(devicesJSON, &raw))
	fail(json.Unmarshal(devicesJSON, &devices))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, "{\n\"devices\": [")
	for i, one := range raw {
		separate(out, i)
		fmt.Fprintf(out, "%s", one)
	}
	fmt.Fprint(out, "\n],\n\"rows\": [")
	for i, selector := range selectors() {
		separate(out, i)
		fmt.Fprintf(out, "%s", line(answers(selector, devices)))
	}
	fmt.Fprint(out, "\n]\n}\n")
}

// selectors are the lines of the embedded file that are neither empty nor a comment.
func selectors() []string {
	var found []string
	for line := range strings.Lines(selectorsText) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	return found
}

// answers evaluates a selector as kube-scheduler does, for stored expressions.
func answers(selector string, devices []device) row {
	features := cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}
	compiled := cel.GetCompiler(features).CompileCELExpression(selector, cel.Options{})
	if compiled.Error != nil {
		first, _, _ := strings.Cut(compiled.Error.Detail, "\n")
		return row{Selector: selector, Compile: first}
	}
	result := row{Selector: selector}
	var letters strings.Builder
	seen := map[string]bool{}
	for _, one := range devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   one.Driver,
			AllowMultipleAllocations: one.AllowMultipleAllocations,
			Attributes:               one.Attributes,
			Capacity:                 one.Capacity,
		})
		switch {
		case err != nil:
			letters.WriteByte('e')
			if !seen[err.Error()] {
				seen[err.Error()] = true
				result.Errors = append(result.Errors, err.Error())
			}
		case matches:
			letters.WriteByte('t')
		default:
			letters.WriteByte('f')
		}
	}
	result.Answers = letters.String()
	return result
}

func line(one row) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	fail(encoder.Encode(one))
	return strings.TrimSpace(text.String())
}

func separate(out *bufio.Writer, i int) {
	if i > 0 {
		fmt.Fprint(out, ",")
	}
	fmt.Fprint(out, "\n")
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
