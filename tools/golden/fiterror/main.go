// Command fiterror prints what the real kube-scheduler says about a pod that fits nowhere, as JSON.
//
// Run it from this directory: go run . > ../../../tests/golden/fiterror.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
)

// group is a number of nodes with the same reasons.
type group struct {
	Nodes   int      `json:"nodes"`
	Reasons []string `json:"reasons"`
}

// row is one diagnosis and the sentence that kube-scheduler makes of it.
type row struct {
	Total      int      `json:"total"`
	Groups     []group  `json:"groups"`
	Absent     []string `json:"absent,omitempty"`
	PreFilter  string   `json:"preFilter,omitempty"`
	PostFilter string   `json:"postFilter,omitempty"`
	Message    string   `json:"message"`
}

// texts are the sentences of kube-scheduler's filters that ours repeat.
var texts = map[string]string{
	"nodeAffinity":      nodeaffinity.ErrReasonPod,
	"nodeName":          nodename.ErrReason,
	"nodePorts":         nodeports.ErrReason,
	"nodeUnschedulable": nodeunschedulable.ErrReasonUnschedulable,
	"noNodes":           scheduler.ErrNoNodesAvailable.Error(),
	"podAffinity":       interpodaffinity.ErrReasonAffinityRulesNotMatch,
	"podAntiAffinity":   interpodaffinity.ErrReasonAntiAffinityRulesNotMatch,
	"existingAffinity":  interpodaffinity.ErrReasonExistingAntiAffinityRulesNotMatch,
	"taint":             untoleratedTaint(),
	"topologySpread":    podtopologyspread.ErrReasonConstraintsNotMatch,
}

func of(nodes int, reasons ...string) group {
	return group{Nodes: nodes, Reasons: append([]string{}, reasons...)}
}

func (r row) say() row {
	statuses := map[string]*fwk.Status{}
	for _, some := range r.Groups {
		for range some.Nodes {
			name := fmt.Sprintf("node-%d", len(statuses))
			statuses[name] = fwk.NewStatus(fwk.Unschedulable, some.Reasons...)
		}
	}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Absent...)
	failure := framework.FitError{NumAllNodes: r.Total, Diagnosis: framework.Diagnosis{
		NodeToStatus:  framework.NewNodeToStatus(statuses, absent),
		PreFilterMsg:  r.PreFilter,
		PostFilterMsg: r.PostFilter,
	}}
	r.Message = failure.Error()
	return r
}

const (
	cpu  = "Insufficient cpu"
	gpu  = "Insufficient nvidia.com/gpu"
	mig1 = "Insufficient nvidia.com/mig-1g.10gb"
	mig2 = "Insufficient nvidia.com/mig-2g.20gb"
	pods = "Too many pods"
	none = "preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod."
)

func rows() []row {
	affinity, cordon, taint, ports := texts["nodeAffinity"], texts["nodeUnschedulable"], texts["taint"], texts["nodePorts"]
	return []row{
		{Total: 1, Groups: []group{of(1, gpu)}},
		{Total: 5, Groups: []group{of(5, gpu)}},
		{Total: 5, Groups: []group{of(3, mig2), of(1, taint), of(1, affinity)}},
		{Total: 5, Groups: []group{of(2, mig2), of(2, mig1), of(1, gpu)}},
		{Total: 5, Groups: []group{of(5, gpu)}, PostFilter: none},
		{Total: 3, Groups: []group{of(3, cpu, gpu)}},
		{Total: 3, Groups: []group{of(3, pods, cpu, "Insufficient memory", gpu)}},
		{Total: 4, Groups: []group{of(2, cpu, gpu), of(1, gpu), of(1, cpu)}},
		{Total: 12, Groups: []group{of(10, gpu), of(2, cordon)}},
		{Total: 22, Groups: []group{of(2, gpu), of(20, cordon)}},
		{Total: 111, Groups: []group{of(100, gpu), of(11, cpu)}},
		{Total: 111, Groups: []group{of(9, gpu), of(101, cpu), of(1, taint)}},
		{Total: 30, Groups: []group{of(1, affinity), of(2, cordon), of(3, taint), of(4, ports), of(5, gpu), of(6, cpu), of(7, pods), of(2, mig2)}},
		{Total: 2, Groups: []group{of(1, "b"), of(1, "a")}},
		{Total: 2, Groups: []group{of(1, "B"), of(1, "a")}},
		{Total: 2, Groups: []group{of(1, "é"), of(1, "z")}},
		{Total: 2, Groups: []group{of(1, "a, b"), of(1, "a")}},
		{Total: 1, Groups: []group{of(1, gpu, gpu)}},
		{Total: 1, Groups: []group{of(1)}},
		{Total: 3, Groups: []group{}},
		{Total: 3, Groups: []group{}, PostFilter: "preemption: none"},
		{Total: 0, Groups: []group{}},
		{Total: 5, Groups: []group{of(2, gpu)}},
		{Total: 5, Groups: []group{of(2, gpu)}, Absent: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}},
		{Total: 5, Groups: []group{}, Absent: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}},
		{Total: 5, Groups: []group{of(5, gpu)}, Absent: []string{"never said"}},
		{Total: 5, Groups: []group{of(2, affinity)}, Absent: []string{affinity}},
		{Total: 5, Groups: []group{}, PreFilter: `persistentvolumeclaim "x" not found`},
		{Total: 5, Groups: []group{of(5, gpu)}, PreFilter: "pod has unbound immediate PersistentVolumeClaims"},
		{Total: 5, Groups: []group{}, PreFilter: "waiting for the claim", PostFilter: none},
		{Total: 5, Groups: []group{}, PreFilter: "ends with a dot."},
		{Total: 5, Groups: []group{of(5, texts["topologySpread"])}},
		{Total: 5, Groups: []group{of(2, texts["podAffinity"]), of(2, texts["podAntiAffinity"]), of(1, texts["existingAffinity"])}},
		{Total: 5, Groups: []group{of(5, texts["nodeName"])}},
		{Total: 7, Groups: []group{of(3, "Insufficient nvidia.com/gpu (need 2; best node has 1 free)"), of(4, gpu)}},
	}
}

func print(out *bufio.Writer, name string, lines []any) {
	fmt.Fprintf(out, "%q: [", name)
	for i, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", text)
	}
	fmt.Fprint(out, "\n]")
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, "{\n")
	print(out, "texts", []any{texts})
	var said []any
	for _, r := range rows() {
		said = append(said, r.say())
	}
	fmt.Fprint(out, ",\n")
	print(out, "rows", said)
	fmt.Fprint(out, ",\n")
	print(out, "fits", fits())
	fmt.Fprint(out, "\n}\n")
}
