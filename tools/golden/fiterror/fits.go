package main

import (
	"context"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	fwk "k8s.io/kube-scheduler/framework"
)

// amounts are resources as a user writes them.
type amounts map[string]string

// fit is one pod against one node that already runs pods. Unresolvable names the resources that
// the node would not have even if it were empty.
type fit struct {
	Requests     amounts   `json:"requests"`
	Allocatable  amounts   `json:"allocatable"`
	Running      []amounts `json:"running"`
	Reasons      []string  `json:"reasons"`
	Unresolvable []string  `json:"unresolvable"`
}

func list(some amounts) v1.ResourceList {
	result := v1.ResourceList{}
	for name, amount := range some {
		result[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return result
}

func pod(some amounts) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
		{Resources: v1.ResourceRequirements{Requests: list(some)}},
	}}}
}

func (f fit) try() fit {
	var running []*v1.Pod
	for _, some := range f.Running {
		running = append(running, pod(some))
	}
	info := framework.NewNodeInfo(running...)
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: list(f.Allocatable)}})
	options := noderesources.ResourceRequestsOptions{EnablePodLevelResources: true}
	f.Reasons, f.Unresolvable = []string{}, []string{}
	for _, lack := range noderesources.Fits(pod(f.Requests), info, nil, options) {
		f.Reasons = append(f.Reasons, lack.Reason)
		if lack.Unresolvable {
			f.Unresolvable = append(f.Unresolvable, string(lack.ResourceName))
		}
	}
	// The real order of extended resources is that of a Go map, which is none.
	sort.Strings(f.Reasons)
	sort.Strings(f.Unresolvable)
	return f
}

func fits() []any {
	node := amounts{"cpu": "4", "memory": "8Gi", "pods": "3", "nvidia.com/gpu": "2", "nvidia.com/mig-2g.20gb": "1", "ephemeral-storage": "10Gi"}
	tries := []fit{
		{Requests: amounts{}},
		{Requests: amounts{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
		{Requests: amounts{"cpu": "4001m"}},
		{Requests: amounts{"memory": "8589934593"}},
		{Requests: amounts{"nvidia.com/gpu": "3"}},
		{Requests: amounts{"nvidia.com/gpu": "0"}},
		{Requests: amounts{"nvidia.com/mig-1g.10gb": "1"}},
		{Requests: amounts{"nvidia.com/mig-1g.10gb": "0"}},
		{Requests: amounts{"ephemeral-storage": "11Gi"}},
		{Requests: amounts{"hugepages-2Mi": "2Mi"}},
		{Requests: amounts{"nvidia.com/gpu": "1"}, Running: []amounts{{"nvidia.com/gpu": "2"}}},
		{Requests: amounts{"nvidia.com/gpu": "1"}, Running: []amounts{{"nvidia.com/gpu": "5"}}},
		{Requests: amounts{"cpu": "1"}, Running: []amounts{{"nvidia.com/gpu": "5"}}},
		{Requests: amounts{"cpu": "2", "nvidia.com/gpu": "2", "nvidia.com/mig-2g.20gb": "2"}, Running: []amounts{{"cpu": "3", "nvidia.com/gpu": "1"}}},
		{Requests: amounts{}, Running: []amounts{{}, {}, {}}},
		{Requests: amounts{"cpu": "5", "nvidia.com/gpu": "1"}, Running: []amounts{{}, {}, {}}},
		{Requests: amounts{"cpu": "1"}, Running: []amounts{{"cpu": "2999m"}}},
		{Requests: amounts{"cpu": "1"}, Running: []amounts{{"cpu": "3001m"}}},
		{Requests: amounts{"cpu": "0.1", "memory": "0.5"}, Running: []amounts{{"cpu": "3900001u", "memory": "8589934591.5"}}},
	}
	var all []any
	for _, one := range tries {
		one.Allocatable = node
		if one.Running == nil {
			one.Running = []amounts{}
		}
		all = append(all, one.try())
	}
	nothing := fit{Requests: amounts{"cpu": "1"}, Allocatable: amounts{"cpu": "4"}, Running: []amounts{}}
	return append(all, nothing.try())
}

// untoleratedTaint asks the real filter for its sentence, which is no constant.
func untoleratedTaint() string {
	ctx := context.Background()
	plugin, err := tainttoleration.New(ctx, nil, nil, feature.Features{})
	if err != nil {
		panic(err)
	}
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}}})
	return plugin.(fwk.FilterPlugin).Filter(ctx, nil, pod(nil), info).Message()
}
