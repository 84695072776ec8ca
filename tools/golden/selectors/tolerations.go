package main

import (
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
)

// tolerationRow holds one answer per taint: with the feature gate of Lt and Gt off, and on.
type tolerationRow struct {
	Toleration v1.Toleration `json:"toleration"`
	Default    []bool        `json:"default"`
	Comparing  []bool        `json:"comparing"`
}

// listRow is the search for the first taint that nothing tolerates; -1 is none.
type listRow struct {
	Taints      []v1.Taint      `json:"taints"`
	Tolerations []v1.Toleration `json:"tolerations"`
	Untolerated int             `json:"untolerated"`
}

func taint(key, value string, effect v1.TaintEffect) v1.Taint {
	return v1.Taint{Key: key, Value: value, Effect: effect}
}

func toleration(key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) v1.Toleration {
	return v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect}
}

var (
	seconds = int64(300)
	taints  = []v1.Taint{
		taint("gpu", "", v1.TaintEffectNoSchedule),
		taint("gpu", "a100", v1.TaintEffectNoSchedule),
		taint("gpu", "a100", v1.TaintEffectNoExecute),
		taint("gpu", "a100", v1.TaintEffectPreferNoSchedule),
		taint("node.kubernetes.io/unschedulable", "", v1.TaintEffectNoSchedule),
		taint("other", "a100", v1.TaintEffectNoSchedule),
		taint("", "", ""),
		taint("GPU", "A100", v1.TaintEffectNoSchedule),
		taint("gpu", "5", v1.TaintEffectNoSchedule),
		taint("gpu", "05", v1.TaintEffectNoSchedule),
		taint("gpu", "+5", v1.TaintEffectNoSchedule),
		taint("gpu", "-5", v1.TaintEffectNoSchedule),
		taint("gpu", "-0", v1.TaintEffectNoSchedule),
		taint("gpu", "0", v1.TaintEffectNoSchedule),
		taint("gpu", "9223372036854775807", v1.TaintEffectNoSchedule),
		taint("gpu", "9223372036854775808", v1.TaintEffectNoSchedule),
		taint("gpu", "-9223372036854775808", v1.TaintEffectNoExecute),
	}
	someTolerations = []v1.Toleration{
		{},
		toleration("", v1.TolerationOpExists, "", ""),
		toleration("", v1.TolerationOpExists, "", v1.TaintEffectNoExecute),
		toleration("", v1.TolerationOpEqual, "", ""),
		toleration("", v1.TolerationOpEqual, "a100", ""),
		toleration("gpu", "", "", ""),
		toleration("gpu", "", "a100", ""),
		toleration("gpu", v1.TolerationOpEqual, "a100", v1.TaintEffectNoSchedule),
		toleration("gpu", v1.TolerationOpEqual, "A100", v1.TaintEffectNoSchedule),
		toleration("gpu", v1.TolerationOpExists, "", v1.TaintEffectNoSchedule),
		toleration("gpu", v1.TolerationOpExists, "ignored", ""),
		toleration("gpu", v1.TolerationOpExists, "", v1.TaintEffectPreferNoSchedule),
		toleration("gpu", "exists", "", ""),
		toleration("gpu", "NotEqual", "a100", ""),
		toleration("node.kubernetes.io/unschedulable", v1.TolerationOpExists, "", v1.TaintEffectNoSchedule),
		{Key: "gpu", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		toleration("gpu", v1.TolerationOpLt, "6", v1.TaintEffectNoSchedule),
		toleration("gpu", v1.TolerationOpLt, "5", ""),
		toleration("gpu", v1.TolerationOpGt, "4", v1.TaintEffectNoSchedule),
		toleration("gpu", v1.TolerationOpGt, "5", ""),
		toleration("gpu", v1.TolerationOpGt, "-5", ""),
		toleration("gpu", v1.TolerationOpGt, "-6", ""),
		toleration("gpu", v1.TolerationOpGt, "04", ""),
		toleration("gpu", v1.TolerationOpGt, "+4", ""),
		toleration("gpu", v1.TolerationOpGt, "-0", ""),
		toleration("gpu", v1.TolerationOpGt, "", ""),
		toleration("gpu", v1.TolerationOpGt, "x", ""),
		toleration("gpu", v1.TolerationOpGt, "4 ", ""),
		toleration("gpu", v1.TolerationOpLt, "9223372036854775807", ""),
		toleration("gpu", v1.TolerationOpLt, "9223372036854775808", ""),
		toleration("gpu", v1.TolerationOpGt, "-9223372036854775808", ""),
		toleration("gpu", v1.TolerationOpGt, "-9223372036854775809", ""),
		toleration("", v1.TolerationOpGt, "0", ""),
		toleration("", v1.TolerationOpLt, "0", v1.TaintEffectNoExecute),
	}
)

func hard(taint *v1.Taint) bool {
	return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
}

func list(taints []v1.Taint, tolerations ...v1.Toleration) listRow {
	found, missing := corev1.FindMatchingUntoleratedTaint(logr.Discard(), taints, tolerations, hard, false)
	row := listRow{Taints: taints, Tolerations: append([]v1.Toleration{}, tolerations...), Untolerated: -1}
	for i := range taints {
		if missing && taints[i] == found {
			row.Untolerated = i
			break
		}
	}
	return row
}

func lists() []any {
	everything := toleration("", v1.TolerationOpExists, "", "")
	gpu := toleration("gpu", v1.TolerationOpExists, "", "")
	soft := taint("gpu", "a100", v1.TaintEffectPreferNoSchedule)
	return []any{
		list([]v1.Taint{}),
		list([]v1.Taint{}, gpu),
		list(taints[:1]),
		list([]v1.Taint{soft}),
		list([]v1.Taint{soft, taints[5]}),
		list([]v1.Taint{soft, taints[5]}, gpu),
		list(taints, everything),
		list(taints, gpu),
		list(taints[:6], gpu),
		list(taints[:6], someTolerations[6]),
		list(taints[1:4], someTolerations[7]),
		list(taints[1:4], someTolerations[7], someTolerations[15]),
		list([]v1.Taint{taints[4], taints[0]}, gpu),
		list([]v1.Taint{taints[6]}),
		list([]v1.Taint{taint("gpu", "", "Unknown"), taints[2]}, someTolerations[7]),
		list([]v1.Taint{taints[8]}, someTolerations[16]),
	}
}

func tolerations() []table {
	logger := logr.Discard()
	pairs := table{name: "taints"}
	for i := range taints {
		pairs.objects = append(pairs.objects, taints[i])
	}
	for i := range someTolerations {
		row := tolerationRow{Toleration: someTolerations[i]}
		for j := range taints {
			row.Default = append(row.Default, someTolerations[i].ToleratesTaint(logger, &taints[j], false))
			row.Comparing = append(row.Comparing, someTolerations[i].ToleratesTaint(logger, &taints[j], true))
		}
		pairs.rows = append(pairs.rows, row)
	}
	return []table{pairs, {name: "lists", objects: lists()}}
}
