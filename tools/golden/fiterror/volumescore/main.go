// Command volumescore prints how kube-scheduler's VolumeBinding scores nodes for pods with unbound
// claims, as JSON.
//
// Run it from the directory above: go run ./volumescore > ../../../tests/golden/volumescore.json
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const (
	cases = 300
	seed  = 37
)

// row is one cluster, and the score of each node on which the claims can be bound.
type row struct {
	cluster
	Expected map[string]int64 `json:"expected"`
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// arguments are the default arguments of the plugin, with the default shape of the score.
func arguments() runtime.Object {
	for _, one := range must(latest.Default()).Profiles[0].PluginConfig {
		if one.Name == volumebinding.Name {
			return one.Args
		}
	}
	panic("VolumeBinding has no default arguments")
}

// scores asks the real plugin, with the feature gates as they are by default.
func scores(drawn cluster) map[string]int64 {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := fake.NewClientset(drawn.objects()...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handle := must(frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory)))
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin := must(volumebinding.New(ctx, arguments(), handle, gates)).(*volumebinding.VolumeBinding)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	pod, state := drawn.pod(), framework.NewCycleState()
	if _, status := plugin.PreFilter(ctx, state, pod, nil); !status.IsSuccess() {
		panic(status.Message())
	}
	var feasible []fwk.NodeInfo
	for _, one := range nodes() {
		info := framework.NewNodeInfo()
		info.SetNode(one)
		if plugin.Filter(ctx, state, pod, info).IsSuccess() {
			feasible = append(feasible, info)
		}
	}
	expected := map[string]int64{}
	if status := plugin.PreScore(ctx, state, pod, feasible); !status.IsSuccess() {
		panic("PreScore: " + status.Message())
	}
	for _, info := range feasible {
		score, status := plugin.Score(ctx, state, pod, info)
		if !status.IsSuccess() {
			panic(status.Message())
		}
		expected[info.Node().Name] = score
	}
	return expected
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	r := rand.New(rand.NewSource(seed))
	// One case per line, so that a change is readable.
	fmt.Fprint(out, "[")
	for i := range cases {
		drawn := draw(r)
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", must(json.Marshal(row{drawn, scores(drawn)})))
	}
	fmt.Fprint(out, "\n]\n")
}
