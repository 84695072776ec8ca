package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// world is a cluster; its objects are written without what the API leaves out.
type world struct {
	Nodes      []object `json:"nodes"`
	Namespaces []object `json:"namespaces,omitempty"`
	Placed     []object `json:"placed"`
	Pod        object   `json:"pod"`
}

// object is a node, a namespace or a pod with the fields that a case uses.
type object struct {
	Name      string              `json:"name"`
	Namespace string              `json:"namespace,omitempty"`
	Labels    map[string]string   `json:"labels,omitempty"`
	Deleting  bool                `json:"deleting,omitempty"`
	Started   int                 `json:"started,omitempty"`
	PodSpec   *v1.PodSpec         `json:"spec,omitempty"`
	Taints    []v1.Taint          `json:"taints,omitempty"`
	Offers    amounts             `json:"offers,omitempty"`
	Images    []v1.ContainerImage `json:"images,omitempty"`
}

// amounts are resources as a user writes them.
type amounts map[string]string

func list(some amounts) v1.ResourceList {
	result := v1.ResourceList{}
	for name, amount := range some {
		result[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return result
}

func (o object) node() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels},
		Spec:       v1.NodeSpec{Taints: o.Taints},
		Status:     v1.NodeStatus{Allocatable: list(o.Offers), Images: o.Images},
	}
}

func (o object) pod() *v1.Pod {
	made := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: types.UID(o.Namespace + "-" + o.Name), Labels: o.Labels},
		Spec:       *o.PodSpec,
	}
	if o.Deleting {
		at := metav1.Unix(1, 0)
		made.DeletionTimestamp = &at
	}
	if o.Started > 0 {
		at := metav1.Unix(int64(o.Started), 0)
		made.Status.StartTime = &at
	}
	return made
}

func (w world) nodes() []*v1.Node {
	var found []*v1.Node
	for _, one := range w.Nodes {
		found = append(found, one.node())
	}
	return found
}

func (w world) pods() []*v1.Pod {
	var found []*v1.Pod
	for _, one := range w.Placed {
		found = append(found, one.pod())
	}
	return found
}

func pick[T any](r *rand.Rand, some ...T) T { return some[r.Intn(len(some))] }

// in is true in one of n cases.
func in(r *rand.Rand, n int) bool { return r.Intn(n) == 0 }

func someLabels(r *rand.Rand) map[string]string {
	found := map[string]string{}
	if !in(r, 6) {
		found["app"] = pick(r, "x", "x", "y")
	}
	if in(r, 2) {
		found["tier"] = pick(r, "x", "y")
	}
	return found
}

func namespaces(r *rand.Rand) []object {
	var found []object
	for _, name := range []string{"team", "other"} {
		found = append(found, object{Name: name, Labels: someLabels(r)})
	}
	return found
}

func selector(r *rand.Rand) *metav1.LabelSelector {
	switch r.Intn(12) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return nil
	case 2, 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{pick(r, "x", "y")}},
		}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(r, "app", "app", "tier"): pick(r, "x", "y")}}
}

func term(r *rand.Rand) v1.PodAffinityTerm {
	found := v1.PodAffinityTerm{TopologyKey: pick(r, "zone", v1.LabelHostname), LabelSelector: selector(r)}
	if in(r, 4) {
		found.Namespaces = []string{pick(r, "team", "other")}
	}
	if in(r, 5) {
		found.NamespaceSelector = selector(r)
	}
	return found
}

func affinity(r *rand.Rand, often int) *v1.Affinity {
	near, apart := &v1.PodAffinity{}, &v1.PodAntiAffinity{}
	weighted := func() []v1.WeightedPodAffinityTerm {
		var some []v1.WeightedPodAffinityTerm
		for range r.Intn(2) {
			some = append(some, v1.WeightedPodAffinityTerm{Weight: int32(1 + r.Intn(100)), PodAffinityTerm: term(r)})
		}
		return some
	}
	required := func() []v1.PodAffinityTerm {
		if in(r, often) {
			return []v1.PodAffinityTerm{term(r)}
		}
		return nil
	}
	near.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
	apart.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
	near.RequiredDuringSchedulingIgnoredDuringExecution = required()
	apart.RequiredDuringSchedulingIgnoredDuringExecution = required()
	found := &v1.Affinity{PodAffinity: near, PodAntiAffinity: apart}
	if in(r, 3) {
		found.NodeAffinity = &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{
			Weight: int32(1 + r.Intn(100)),
			Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{pick(r, "a", "b")}},
			}},
		}}}
	}
	return found
}

func spread(r *rand.Rand) v1.TopologySpreadConstraint {
	honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
	found := v1.TopologySpreadConstraint{
		TopologyKey: pick(r, "zone", v1.LabelHostname), MaxSkew: int32(1 + r.Intn(2)), LabelSelector: selector(r),
		WhenUnsatisfiable:  pick(r, v1.DoNotSchedule, v1.ScheduleAnyway),
		NodeAffinityPolicy: pick(r, nil, nil, &honor, &ignore), NodeTaintsPolicy: pick(r, nil, nil, &honor, &ignore),
	}
	if found.WhenUnsatisfiable == v1.DoNotSchedule && in(r, 2) {
		domains := int32(1 + r.Intn(3))
		found.MinDomains = &domains
	}
	if in(r, 4) {
		found.MatchLabelKeys = []string{"tier"}
	}
	return found
}

func container(name string, requests amounts) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list(requests)}}
}

func someRequests(r *rand.Rand) amounts {
	found := amounts{}
	if !in(r, 3) {
		found["cpu"] = pick(r, "250m", "500m", "1", "1500m")
	}
	if !in(r, 3) {
		found["memory"] = pick(r, "128Mi", "1Gi", "1500M")
	}
	return found
}

func machine(r *rand.Rand, number int) object {
	name := fmt.Sprintf("n%d", number)
	found := object{Name: name, Labels: map[string]string{}, Offers: amounts{
		"cpu": pick(r, "4", "6", "8"), "memory": pick(r, "8Gi", "16Gi", "6000M"), "pods": "20",
	}}
	if !in(r, 15) {
		found.Labels[v1.LabelHostname] = name
	}
	if !in(r, 15) {
		found.Labels["zone"] = pick(r, "a", "b", "c")
	}
	for _, effect := range []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectPreferNoSchedule} {
		if in(r, 8) {
			found.Taints = append(found.Taints, v1.Taint{Key: pick(r, "gpu", "spot"), Value: "yes", Effect: effect})
		}
	}
	return found
}

// workload is a pod with everything that the plugins score.
func workload(r *rand.Rand, name, node string, often int) object {
	spec := &v1.PodSpec{NodeName: node, Containers: []v1.Container{container("app", someRequests(r))}}
	if in(r, 4) {
		spec.Containers = append(spec.Containers, container("side", someRequests(r)))
	}
	if in(r, 6) {
		spec.InitContainers = append(spec.InitContainers, container("init", someRequests(r)))
	}
	if in(r, 8) {
		spec.Overhead = list(amounts{"cpu": "100m"})
	}
	if in(r, 8) {
		spec.Resources = &v1.ResourceRequirements{Requests: list(amounts{"cpu": "2"})}
	}
	if in(r, 3) || node == "" && !in(r, 4) {
		spec.Affinity = affinity(r, often)
	}
	return object{Name: name, Namespace: pick(r, "team", "team", "team", "other"), Labels: someLabels(r), PodSpec: spec, Deleting: node != "" && in(r, 8)}
}
