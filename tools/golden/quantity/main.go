// Command quantity prints what the real Kubernetes parser makes of many texts, as JSON.
//
// Run it from this directory: go run . > ../../../tests/golden/quantity.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// row is one parsed text. Nano is the exact amount in nano units, rounded away from zero.
// Value and Milli are the parser's 64-bit readings, which wrap around when they overflow.
type row struct {
	Text      string `json:"text"`
	Refused   bool   `json:"refused,omitempty"`
	Nano      string `json:"nano,omitempty"`
	Value     int64  `json:"value"`
	Milli     int64  `json:"milli"`
	Canonical string `json:"canonical,omitempty"`
}

// numbers times suffixes gives the bulk of the table.
var (
	numbers = []string{
		"0", "1", "-1", "+7", "0.1", "-0.1", ".5", "5.", "1.5", "0005", "1023", "999999999999999999",
		"9223372036854775807", "1.000000001", "1.0000000001", "-2.5", "123456789.987654321",
	}
	suffixes = []string{
		"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3",
	}
)

// singles are the odd ones, each for a branch of the parser.
var singles = strings.Split(strings.TrimSpace(`
.|+|-|+.|-.|+.5|-.5|.k|k|m|n|E|Ki|Mi|Gi|Ti|Pi|Ei|.Ki|.Ti|.Pi|.Ei|+Ei|1.Gi|1.Ei|-1.Ei
e3|e-9|e-10|E10|e|.e3|.e-10|0e-10|0.e-20|00|-0|+0|000.000|0K
1K|1e|1E|1e2Ki|1_0|1,5|0x10|1.2.3|1..2|--1|+-1|1-|1+|1k3|1e+|1e-|1ee3|1Ki5|1ki|1KI|1mi|1g|1t|1b|1B|1Gib|1GB
1i|1iK|1Mm|1kk|1nn|1Kii|inf|nan|NaN|Infinity|null|true|1/2|1%|~1|१|１|1０|1Ｋi|½
1E3|1e3|1E+2|1e-3|1e+03|1e003|2E-1|1e9|1e10|1e18|1e19|1e20|1e30|1e-9|1e-10|1e-20|1e-300|1.5e-12|1E30|-1e19|-1e-10
1e4294967296|1e4294967297|1e-4294967296|1e9223372036854775807|1e9223372036854775808|1e-9223372036854775808
1e-9223372036854775809|1e00000000000000000000000003|1e99999999999999999999
8Ei|7Ei|16Ei|-16Ei|8191Pi|8192Pi|9007199254740991Ki|9007199254740992Ki|9223372036854775808|-9223372036854775808
9223372036854775808Ki|0.5Ei|7.9999999999Ei|20E|9E|10E|-20E|9.3E|9223372036854775807m|9223372036854775808m
9223372036854775.807|9223372036854775.808|9223372036854775807n|99999999999999999999n|18446744073709551616
0.000000001|0.0000000001|-0.0000000001|0.0000000004Ki|0.5n|1.5n|-1.5n|0.5Ki|1.1Ki|1.0009765625Ki|0.3Gi|1.5m|1500u|0.0005|0.0015|-0.0015
100m|250m|1500m|0.25|3.14159|1000m|999m|1001m|1e3m|64Gi|65536Mi|16277508Ki|16277508.5Ki|128974848|129e6|129M|123Mi|1.5Gi|1536Mi|40536850432|80Gi
000000000000000000001|00000000000000000000.1|123456789012345678|1234567890123456789|12345678901234567890|1.23456789012345678|12.345678901234567890123
0.123456789012345678901234567890Ki|99999999999999999999999999999999999999|1.00000000000000000000000000000000000001
-1.5Gi|-0.1Gi|-0.3Ki|-1m|-1500u|-9223372036854775807|-7.5Ei|-12.345678901234567890123
`), "\n")

// unseparated could not be written in the list above.
var unseparated = []string{"", " ", " 1", "1 ", "1 k", "1\n", "\t1", "1\u00a0", "1|2", "\x00", "1\x00", "1\u2028k"}

func read(text string) row {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return row{Text: text, Refused: true}
	}
	canonical := quantity.DeepCopy()
	number, suffix := canonical.CanonicalizeBytes(nil)
	exact := quantity.DeepCopy()
	nano := new(inf.Dec).Round(exact.AsDec(), 9, inf.RoundUp)
	unscaled := new(big.Int).Set(nano.UnscaledBig())
	return row{
		Text: text, Nano: unscaled.String(), Value: quantity.Value(), Milli: quantity.MilliValue(),
		Canonical: string(number) + string(suffix),
	}
}

func texts() []string {
	var all []string
	for _, number := range numbers {
		for _, suffix := range suffixes {
			all = append(all, number+suffix)
		}
	}
	for _, line := range singles {
		all = append(all, strings.Split(line, "|")...)
	}
	return append(all, unseparated...)
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	seen := map[string]bool{}
	separator := "[\n"
	for _, text := range texts() {
		if seen[text] {
			continue
		}
		seen[text] = true
		line, err := json.Marshal(read(text))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintf(out, "%s%s", separator, line)
		separator = ",\n"
	}
	fmt.Fprint(out, "\n]\n")
}
