package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// features are the defaults of this version; DRA takes no part.
func features() feature.Features {
	found := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	found.EnableDRAExtendedResource = false
	return found
}

var registry = schedulerruntime.Registry{
	names.PrioritySort:                    queuesort.New,
	names.DefaultBinder:                   defaultbinder.New,
	names.TaintToleration:                 schedulerruntime.FactoryAdapter(features(), tainttoleration.New),
	names.NodeAffinity:                    schedulerruntime.FactoryAdapter(features(), nodeaffinity.New),
	names.NodePorts:                       schedulerruntime.FactoryAdapter(features(), nodeports.New),
	names.NodeResourcesFit:                schedulerruntime.FactoryAdapter(features(), noderesources.NewFit),
	names.NodeResourcesBalancedAllocation: schedulerruntime.FactoryAdapter(features(), noderesources.NewBalancedAllocation),
	names.PodTopologySpread:               schedulerruntime.FactoryAdapter(features(), podtopologyspread.New),
	names.InterPodAffinity:                schedulerruntime.FactoryAdapter(features(), interpodaffinity.New),
}

// filters are in the order of the default plugins.
var filters = []string{
	names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity,
}

// scored are the plugins whose scores are compared; the names in the file are shorter.
var scored = map[string]string{
	names.TaintToleration:                 "taints",
	names.NodeAffinity:                    "nodeAffinity",
	names.PodTopologySpread:               "spread",
	names.InterPodAffinity:                "podAffinity",
	names.NodeResourcesFit:                "leastAllocated",
	names.NodeResourcesBalancedAllocation: "balanced",
}

var both = []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}

// arguments are the defaults of pkg/scheduler/apis/config/v1.
var arguments = map[string]runtime.Object{
	names.NodeAffinity:                    &config.NodeAffinityArgs{},
	names.NodeResourcesFit:                &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: both}},
	names.NodeResourcesBalancedAllocation: &config.NodeResourcesBalancedAllocationArgs{Resources: both},
	names.PodTopologySpread:               &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting},
	names.InterPodAffinity:                &config.InterPodAffinityArgs{HardPodAffinityWeight: 1},
}

// noNominations has no nominated pods.
type noNominations struct{ fwk.PodNominator }

func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

func enabled(some ...string) config.PluginSet {
	var set config.PluginSet
	for _, name := range some {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name, Weight: 1})
	}
	return set
}

// scheduler is a framework with the plugins above on a snapshot of a world.
func scheduler(ctx context.Context, w world) (framework.Framework, *cache.Snapshot) {
	snapshot := cache.NewSnapshot(w.pods(), w.nodes())
	factory := informers.NewSharedInformerFactory(nil, 0)
	for _, one := range w.Namespaces {
		check(factory.Core().V1().Namespaces().Informer().GetIndexer().Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: one.Name, Labels: one.Labels}}))
	}
	profile := &config.KubeSchedulerProfile{SchedulerName: v1.DefaultSchedulerName, Plugins: &config.Plugins{
		QueueSort: enabled(names.PrioritySort),
		Bind:      enabled(names.DefaultBinder),
		PreFilter: enabled(names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity),
		Filter:    enabled(filters...),
		PreScore:  enabled(names.TaintToleration, names.NodeAffinity, names.PodTopologySpread, names.InterPodAffinity, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation),
		Score:     enabled(names.TaintToleration, names.NodeAffinity, names.PodTopologySpread, names.InterPodAffinity, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation),
	}}
	for name, args := range arguments {
		profile.PluginConfig = append(profile.PluginConfig, config.PluginConfig{Name: name, Args: args})
	}
	made, err := schedulerruntime.NewFramework(ctx, registry, profile,
		schedulerruntime.WithSnapshotSharedLister(snapshot),
		schedulerruntime.WithMutableSnapshotLister(snapshot),
		schedulerruntime.WithInformerFactory(factory),
		schedulerruntime.WithPodNominator(noNominations{}),
	)
	check(err)
	return made, snapshot
}
