package main

import (
	"context"
	"fmt"
	"math/rand"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// judged is a world with what kube-scheduler makes of it: the reasons of each node that is rejected,
// and the normalized scores of the feasible ones.
type judged struct {
	world
	Rejected map[string][]string         `json:"rejected"`
	Scores   map[string]map[string]int64 `json:"scores"`
}

const cases = 80

func filterScores(ctx context.Context) []any {
	r := rand.New(rand.NewSource(37))
	var rows []any
	for len(rows) < cases {
		if row := judge(ctx, randomWorld(r)); len(row.Scores) > 2 || row.rejectsByTerms() && in(r, 2) || in(r, 8) {
			rows = append(rows, row)
		}
	}
	return rows
}

// rejectsByTerms is whether a node is rejected for its domain's pods.
func (j judged) rejectsByTerms() bool {
	for _, reasons := range j.Rejected {
		if strings.Contains(reasons[0], "pod topology spread") || strings.Contains(reasons[0], "affinity rules") {
			return true
		}
	}
	return false
}

func randomWorld(r *rand.Rand) world {
	var w world
	for number := range 3 + r.Intn(4) {
		w.Nodes = append(w.Nodes, machine(r, number))
	}
	w.Namespaces = namespaces(r)
	for number := range 5 + r.Intn(8) {
		w.Placed = append(w.Placed, workload(r, fmt.Sprintf("p%d", number), pick(r, w.Nodes...).Name, 4))
	}
	w.Pod = workload(r, "new", "", 8)
	for range pick(r, 0, 1, 1, 2) {
		w.Pod.PodSpec.TopologySpreadConstraints = append(w.Pod.PodSpec.TopologySpreadConstraints, spread(r))
	}
	if in(r, 8) {
		w.Pod.PodSpec.NodeSelector = map[string]string{"zone": pick(r, "a", "b")}
	}
	if in(r, 3) {
		w.Pod.PodSpec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
	}
	return w
}

func judge(ctx context.Context, w world) judged {
	made, snapshot := scheduler(ctx, w)
	row := judged{world: w, Rejected: map[string][]string{}, Scores: map[string]map[string]int64{}}
	state, pod := framework.NewCycleState(), w.Pod.pod()
	if _, status, _ := made.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		check(status.AsError())
	}
	var feasible []fwk.NodeInfo
	for _, one := range w.Nodes {
		info, err := snapshot.NodeInfos().Get(one.Name)
		check(err)
		if status := made.RunFilterPlugins(ctx, state, pod, info); status.IsSuccess() {
			feasible = append(feasible, info)
		} else {
			row.Rejected[one.Name] = status.Reasons()
		}
	}
	if len(feasible) == 0 {
		return row
	}
	if status := made.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		check(status.AsError())
	}
	totals, status := made.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		check(status.AsError())
	}
	for _, one := range totals {
		row.Scores[one.Name] = map[string]int64{}
		for _, score := range one.Scores {
			row.Scores[one.Name][scored[score.Name]] = score.Score
		}
	}
	return row
}
