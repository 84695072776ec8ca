package main

import (
	"context"
	"fmt"
	"math/rand"
	"sort"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// budget is a PodDisruptionBudget.
type budget struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Selector  *metav1.LabelSelector `json:"selector"`
	Allowed   int32                 `json:"allowed"`
	Disrupted []string              `json:"disrupted,omitempty"`
}

// victims have to go, the most important first.
type victims struct {
	Pods       []string `json:"pods"`
	Violations int64    `json:"violations"`
}

// preempted is a world with the candidates and the nodes of which kube-scheduler takes any.
type preempted struct {
	world
	Budgets    []budget           `json:"budgets,omitempty"`
	Candidates map[string]victims `json:"candidates"`
	Best       []string           `json:"best"`
}

// asked is how often the choice is repeated: equally good nodes are taken in random order.
const asked = 300

var hostPort = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}

func (b budget) object() *policy.PodDisruptionBudget {
	made := &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: b.Selector},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: b.Allowed, DisruptedPods: map[string]metav1.Time{}},
	}
	for _, name := range b.Disrupted {
		made.Status.DisruptedPods[name] = metav1.Unix(1, 0)
	}
	return made
}

func preemptions(ctx context.Context) []any {
	r := rand.New(rand.NewSource(6))
	var rows []any
	for len(rows) < cases {
		if row := preempt(ctx, crowded(r)); len(row.Candidates) > 1 || len(row.Candidates) == 1 && in(r, 2) || in(r, 30) {
			rows = append(rows, row)
		}
	}
	return rows
}

// crowded is a world whose nodes are full of pods of several priorities.
func crowded(r *rand.Rand) preempted {
	var row preempted
	row.Namespaces = namespaces(r)
	for number := range 1 + r.Intn(4) {
		name := fmt.Sprintf("n%d", number)
		row.Nodes = append(row.Nodes, object{
			Name: name, Labels: map[string]string{v1.LabelHostname: name, "zone": pick(r, "a", "b")},
			Offers: amounts{"cpu": "4", "memory": "8Gi", "pods": pick(r, "3", "20"), "nvidia.com/gpu": "4"},
		})
		if number > 0 && in(r, 3) {
			row.Placed = append(row.Placed, twins(row.Placed, number)...)
			continue
		}
		// Equal start times on one node have no order.
		starts := r.Perm(4)
		for place := range 2 + r.Intn(3) {
			one := fmt.Sprintf("p%d%d", number, place)
			// With such priorities fewer victims are not always a smaller sum.
			priority := pick[int32](r, -2000000000, 0, 0, 1, 1, 2)
			made := tenant(r, one, name, priority, 100+starts[place])
			if place == 0 && in(r, 2) { // one port is in use once on a node
				made.PodSpec.Containers[0].Ports = hostPort
			}
			row.Placed = append(row.Placed, made)
		}
	}
	row.Pod = tenant(r, "new", "", 2, 0)
	if in(r, 3) {
		row.Pod.PodSpec.Containers[0].Ports = hostPort
	}
	row.Pod.Namespace = "team"
	for number := range 1 + r.Intn(3) {
		one := budget{Namespace: pick(r, "team", "team", "other"), Name: fmt.Sprintf("b%d", number), Selector: selector(r), Allowed: int32(r.Intn(2))}
		if in(r, 3) {
			one.Disrupted = []string{pick(r, row.Placed...).Name}
		}
		row.Budgets = append(row.Budgets, one)
	}
	return row
}

// twins are the pods of the node before this one once more: the nodes are equally good.
func twins(placed []object, number int) []object {
	var found []object
	for _, one := range placed {
		if one.PodSpec.NodeName != fmt.Sprintf("n%d", number-1) {
			continue
		}
		one.Name = fmt.Sprintf("p%d%d", number, len(found))
		one.PodSpec = one.PodSpec.DeepCopy()
		one.PodSpec.NodeName = fmt.Sprintf("n%d", number)
		found = append(found, one)
	}
	return found
}

func tenant(r *rand.Rand, name, node string, priority int32, started int) object {
	requests := amounts{"cpu": pick(r, "1", "1", "2")}
	if !in(r, 3) {
		requests["nvidia.com/gpu"] = pick(r, "1", "2")
	}
	spec := &v1.PodSpec{NodeName: node, Priority: &priority, Containers: []v1.Container{container("app", requests)}}
	if in(r, 7) {
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(r)}}}
	}
	if node == "" && in(r, 4) {
		hard := spread(r)
		hard.WhenUnsatisfiable = v1.DoNotSchedule
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{hard}
	}
	return object{Name: name, Namespace: pick(r, "team", "team", "other"), Labels: someLabels(r), PodSpec: spec, Started: started, Deleting: node != "" && in(r, 10)}
}

func preempt(ctx context.Context, row preempted) preempted {
	made, snapshot := scheduler(ctx, row.world)
	row.Candidates, row.Best = map[string]victims{}, []string{}
	state, pod := framework.NewCycleState(), row.Pod.pod()
	if _, status, _ := made.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		check(status.AsError())
	}
	var potential []fwk.NodeInfo
	for _, one := range row.Nodes {
		info, err := snapshot.NodeInfos().Get(one.Name)
		check(err)
		switch status := made.RunFilterPlugins(ctx, state, pod, info); status.Code() {
		case fwk.Success:
			return row // nothing is preempted
		case fwk.Unschedulable:
			potential = append(potential, info)
		}
	}
	if len(potential) == 0 {
		return row
	}
	plugin, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}, made, features())
	check(err)
	var budgets []*policy.PodDisruptionBudget
	for _, one := range row.Budgets {
		budgets = append(budgets, one.object())
	}
	found, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, potential, budgets, 0, int32(len(potential)))
	check(err)
	for _, one := range found {
		said := victims{Pods: []string{}, Violations: one.Victims().NumPDBViolations}
		for _, victim := range one.Victims().Pods {
			said.Pods = append(said.Pods, victim.Name)
		}
		row.Candidates[one.Name()] = said
	}
	if len(found) == 0 {
		return row
	}
	best := map[string]bool{}
	for range asked {
		best[plugin.Evaluator.SelectCandidate(ctx, found).Name()] = true
	}
	for name := range best {
		row.Best = append(row.Best, name)
	}
	sort.Strings(row.Best)
	return row
}
