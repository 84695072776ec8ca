package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
)

// labelRow holds one answer per set of labels; an error counts as "matches nothing".
type labelRow struct {
	Selector *metav1.LabelSelector `json:"selector"`
	Error    bool                  `json:"error,omitempty"`
	Matches  []bool                `json:"matches"`
}

func labelExpressions() []*metav1.LabelSelector {
	selectors := []*metav1.LabelSelector{
		nil,
		{},
		{MatchLabels: map[string]string{"zone": "z1"}},
		{MatchLabels: map[string]string{"zone": "z1", "gpus": "8"}},
		{MatchLabels: map[string]string{"zone": "z1", "bad key": "x"}},
		{MatchLabels: map[string]string{"odd": "-x"}},
		{MatchLabels: map[string]string{"empty": ""}},
		{
			MatchLabels: map[string]string{"zone": "z1"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "gpus", Operator: metav1.LabelSelectorOpIn, Values: []string{"8", "+9"}},
			},
		},
		{
			MatchLabels: map[string]string{"zone": "z1"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "gpus", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"8"}},
			},
		},
	}
	for _, one := range single {
		selectors = append(selectors, &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: one.Key, Operator: metav1.LabelSelectorOperator(one.Operator), Values: one.Values},
			},
		})
	}
	return selectors
}

func labelSelectors() []table {
	result := table{name: "labels"}
	for _, node := range nodes {
		result.objects = append(result.objects, node.Labels)
	}
	for _, selector := range labelExpressions() {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		row := labelRow{Selector: selector, Error: err != nil}
		for _, node := range nodes {
			row.Matches = append(row.Matches, err == nil && parsed.Matches(apilabels.Set(node.Labels)))
		}
		result.rows = append(result.rows, row)
	}
	return []table{result}
}
