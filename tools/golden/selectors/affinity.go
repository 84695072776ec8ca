package main

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
)

// affinityRow holds one answer per node for a list of terms.
type affinityRow struct {
	Terms   []v1.NodeSelectorTerm `json:"terms"`
	Matches []bool                `json:"matches"`
}

type nodeObject struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

var (
	long  = strings.Repeat("x", 63)
	nodes = []nodeObject{
		{"a", map[string]string{"zone": "z1", "gpus": "8", "driver.example.com/ready": "true", "empty": ""}},
		{"b", map[string]string{"zone": "z2", "gpus": "08", "big": "9223372036854775807"}},
		{"c", map[string]string{"zone": "Z1", "gpus": "eight", "big": "9223372036854775808", long: long}},
		{"d", map[string]string{"gpus": "", "big": "-9223372036854775808"}},
		{"e", map[string]string{}},
		{"", map[string]string{"zone": "z1", "gpus": "+9", "big": "1_0"}},
		{"f", map[string]string{"zone": "z3", "gpus": "-3", "big": " 1", "bad key": "x", "odd": "-x"}},
	}
)

func expression(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func labels(expressions ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: expressions}
}

func fields(expressions ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: expressions}
}

// single are the requirements that are asked one by one.
var single = []v1.NodeSelectorRequirement{
	expression("zone", v1.NodeSelectorOpIn, "z1"),
	expression("zone", v1.NodeSelectorOpIn, "z1", "z2"),
	expression("zone", v1.NodeSelectorOpIn, "z9"),
	expression("zone", v1.NodeSelectorOpIn),
	expression("zone", v1.NodeSelectorOpIn, ""),
	expression("empty", v1.NodeSelectorOpIn, ""),
	expression("zone", v1.NodeSelectorOpIn, "-z1", "z1"),
	expression("zone", v1.NodeSelectorOpIn, "z1", "a b"),
	expression("zone", v1.NodeSelectorOpIn, "z1\n"),
	expression(long, v1.NodeSelectorOpIn, long),
	expression(long, v1.NodeSelectorOpIn, long+"x"),
	expression(long+"x", v1.NodeSelectorOpDoesNotExist),
	expression("zone", v1.NodeSelectorOpNotIn, "z1"),
	expression("zone", v1.NodeSelectorOpNotIn, "z1", "z2", "Z1", "z3"),
	expression("zone", v1.NodeSelectorOpNotIn),
	expression("zone", v1.NodeSelectorOpNotIn, "not a label"),
	expression("odd", v1.NodeSelectorOpNotIn, "x"),
	expression("odd", v1.NodeSelectorOpIn, "-x"),
	expression("zone", v1.NodeSelectorOpExists),
	expression("zone", v1.NodeSelectorOpExists, "z1"),
	expression("zone", v1.NodeSelectorOpExists, ""),
	expression("driver.example.com/ready", v1.NodeSelectorOpExists),
	expression("Driver.example.com/ready", v1.NodeSelectorOpDoesNotExist),
	expression("driver.example.com/a/b", v1.NodeSelectorOpDoesNotExist),
	expression("/ready", v1.NodeSelectorOpDoesNotExist),
	expression("example.com/", v1.NodeSelectorOpDoesNotExist),
	expression("exa_mple.com/x", v1.NodeSelectorOpDoesNotExist),
	expression("example..com/x", v1.NodeSelectorOpDoesNotExist),
	expression("e-x.1a.b-/x", v1.NodeSelectorOpDoesNotExist),
	expression("e-x.1a.b--c/x_y.z-1", v1.NodeSelectorOpDoesNotExist),
	expression(strings.Repeat("a", 253)+"/x", v1.NodeSelectorOpDoesNotExist),
	expression(strings.Repeat("a", 254)+"/x", v1.NodeSelectorOpDoesNotExist),
	expression("zone", v1.NodeSelectorOpDoesNotExist),
	expression("zone", v1.NodeSelectorOpDoesNotExist, "z1"),
	expression("bad key", v1.NodeSelectorOpExists),
	expression("bad key", v1.NodeSelectorOpDoesNotExist),
	expression("", v1.NodeSelectorOpDoesNotExist),
	expression("-x", v1.NodeSelectorOpDoesNotExist),
	expression("x", v1.NodeSelectorOpDoesNotExist),
	expression("ключ", v1.NodeSelectorOpDoesNotExist),
	expression("gpus", v1.NodeSelectorOpGt, "5"),
	expression("gpus", v1.NodeSelectorOpGt, "8"),
	expression("gpus", v1.NodeSelectorOpGt, "07"),
	expression("gpus", v1.NodeSelectorOpGt, "-5"),
	expression("gpus", v1.NodeSelectorOpGt, "+5"),
	expression("gpus", v1.NodeSelectorOpGt, "5", "6"),
	expression("gpus", v1.NodeSelectorOpGt),
	expression("gpus", v1.NodeSelectorOpGt, ""),
	expression("gpus", v1.NodeSelectorOpGt, "five"),
	expression("gpus", v1.NodeSelectorOpGt, "5.0"),
	expression("gpus", v1.NodeSelectorOpGt, "0x5"),
	expression("gpus", v1.NodeSelectorOpGt, "1_0"),
	expression("gpus", v1.NodeSelectorOpGt, "５"),
	expression("gpus", v1.NodeSelectorOpLt, "9"),
	expression("gpus", v1.NodeSelectorOpLt, "8"),
	expression("gpus", v1.NodeSelectorOpLt, "0"),
	expression("big", v1.NodeSelectorOpGt, "9223372036854775806"),
	expression("big", v1.NodeSelectorOpGt, "9223372036854775807"),
	expression("big", v1.NodeSelectorOpGt, "9223372036854775808"),
	expression("big", v1.NodeSelectorOpLt, "1"),
	expression("big", v1.NodeSelectorOpLt, "00000000000000000000000000001"),
	expression("zone", "in", "z1"),
	expression("zone", "Equals", "z1"),
	expression("zone", "", "z1"),
}

// singleFields are the requirements on fields of the node.
var singleFields = []v1.NodeSelectorRequirement{
	expression("metadata.name", v1.NodeSelectorOpIn, "a"),
	expression("metadata.name", v1.NodeSelectorOpIn, "a", "b"),
	expression("metadata.name", v1.NodeSelectorOpIn),
	expression("metadata.name", v1.NodeSelectorOpIn, ""),
	expression("metadata.name", v1.NodeSelectorOpNotIn, "a"),
	expression("metadata.name", v1.NodeSelectorOpNotIn, "a", "b"),
	expression("metadata.name", v1.NodeSelectorOpExists),
	expression("metadata.name", v1.NodeSelectorOpGt, "1"),
	expression("metadata.uid", v1.NodeSelectorOpIn, "a"),
	expression("metadata.uid", v1.NodeSelectorOpIn, ""),
	expression("metadata.uid", v1.NodeSelectorOpNotIn, "a"),
	expression("metadata.name", v1.NodeSelectorOpIn, "not a name!"),
	expression("metadata.name", v1.NodeSelectorOpNotIn, "not a name!"),
}

func termLists() [][]v1.NodeSelectorTerm {
	z1, z2 := labels(single[0]), labels(expression("zone", v1.NodeSelectorOpIn, "z2"))
	broken := labels(expression("zone", "Equals", "z1"))
	lists := [][]v1.NodeSelectorTerm{
		{}, {{}}, {{}, {}}, {z1, z2}, {{}, z2}, {broken, z2}, {z2, broken}, {broken, broken},
		{labels(single[0], expression("gpus", v1.NodeSelectorOpGt, "5"))},
		{labels(single[0], expression("gpus", v1.NodeSelectorOpGt, "x"))},
		{labels(single[0], single[12])},
		{{MatchExpressions: z1.MatchExpressions, MatchFields: fields(singleFields[0]).MatchFields}},
		{{MatchExpressions: z1.MatchExpressions, MatchFields: fields(singleFields[4]).MatchFields}},
		{{MatchExpressions: z1.MatchExpressions, MatchFields: fields(singleFields[6]).MatchFields}},
		{{MatchExpressions: broken.MatchExpressions, MatchFields: fields(singleFields[0]).MatchFields}},
		{fields(singleFields[0], singleFields[4])},
		{fields(singleFields[0]), fields(expression("metadata.name", v1.NodeSelectorOpIn, "b"))},
		{fields(singleFields[6]), z1},
	}
	for _, one := range single {
		lists = append(lists, []v1.NodeSelectorTerm{labels(one)})
	}
	for _, one := range singleFields {
		lists = append(lists, []v1.NodeSelectorTerm{fields(one)})
	}
	return lists
}

func nodeAffinity() []table {
	result := table{name: "nodes"}
	for _, node := range nodes {
		result.objects = append(result.objects, node)
	}
	for _, terms := range termLists() {
		row := affinityRow{Terms: terms}
		for _, node := range nodes {
			// A parse error is only reported when nothing matched, so the answer is enough.
			match, _ := corev1.MatchNodeSelectorTerms(
				&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}},
				&v1.NodeSelector{NodeSelectorTerms: terms},
			)
			row.Matches = append(row.Matches, match)
		}
		result.rows = append(result.rows, row)
	}
	return []table{result}
}
