// Command dynamicresources prints what the real structured allocator of kube-scheduler allocates in
// small random worlds of slices, classes and claims, as JSON.
//
// Run it from this directory:
//
//	go run . > ../../../tests/golden/dynamicresources.json
//
// Each world has slices, classes and nodes, and a sequence of steps. A step allocates the claims of
// a pod on one node; what it allocates is in use for the steps that follow. Some steps deallocate.
//
// With the argument "accepts" it reads questions instead, one JSON object per line, and says of each
// whether the allocator accepts the allocations in it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	worlds       = 60
	stepsOfWorld = 10
)

// features are all but derived attributes, which need an API that no server has on by default.
var features = structured.Features{
	AdminAccess:             true,
	CompatibilityGroups:     true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	ListTypeAttributes:      true,
	OptionalNodeOperations:  true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

type step struct {
	Node   string                       `json:"node"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
	// Released are the claims that are deallocated before this step.
	Released []string `json:"released,omitempty"`
	// Result has one allocation for each claim; it is null where there is none.
	Result []resourceapi.AllocationResult `json:"result"`
	// Error is what kube-scheduler reports; "invalid pool" where it is about the node only.
	Error string `json:"error,omitempty"`
}

type world struct {
	Nodes   []*v1.Node                   `json:"nodes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Steps   []step                       `json:"steps"`
}

type classLister map[string]*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := l[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("class %s not found", name)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stateOf has what allocated claims use, as kube-scheduler's plugin gathers it.
func stateOf(claims map[string]*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		for _, one := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(one.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(one.Driver, one.Pool, one.Device)
			if one.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, one.ShareID))
			if one.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, one.ConsumedCapacity))
			}
		}
	}
	return state
}

func (w *world) run(ctx context.Context, random *rand.Rand) {
	classes := classLister{}
	for _, one := range w.Classes {
		classes[one.Name] = one
	}
	allocated := map[string]*resourceapi.ResourceClaim{}
	var order []string
	for number := 0; number < stepsOfWorld; number++ {
		s := step{Node: w.Nodes[random.Intn(len(w.Nodes))].Name, Claims: claims(random, number)}
		if len(order) > 0 && random.Intn(3) == 0 {
			at := random.Intn(len(order))
			s.Released = []string{order[at]}
			delete(allocated, order[at])
			order = append(order[:at], order[at+1:]...)
		}
		var node *v1.Node
		for _, one := range w.Nodes {
			if one.Name == s.Node {
				node = one
			}
		}
		allocator, err := structured.NewAllocator(
			ctx, features, stateOf(allocated), classes, w.Slices, cel.NewCache(10, cel.Features{}))
		check(err)
		result, err := allocator.Allocate(ctx, node, s.Claims)
		s.Result = result
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			s.Error = "invalid pool"
		case err != nil:
			s.Error = err.Error()
		}
		for at := range result {
			claim := s.Claims[at].DeepCopy()
			claim.Status.Allocation = result[at].DeepCopy()
			allocated[claim.Name] = claim
			order = append(order, claim.Name)
			// A share has a random id; that it is there says that the device is shared.
			for i := range s.Result[at].Devices.Results {
				if one := &s.Result[at].Devices.Results[i]; one.ShareID != nil {
					s.Result[at].Devices.Results[i].ShareID = ptr.To(*one.ShareID)
					*s.Result[at].Devices.Results[i].ShareID = "share"
				}
			}
		}
		w.Steps = append(w.Steps, s)
	}
}

func main() {
	klog.SetOutput(os.Stderr)
	if len(os.Args) > 1 && os.Args[1] == "accepts" {
		accept(os.Stdin, os.Stdout)
		return
	}
	random := rand.New(rand.NewSource(20261129))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	// One world per line, so that a change is readable.
	fmt.Fprint(out, "[")
	for i := 0; i < worlds; i++ {
		w := newWorld(random)
		w.run(context.Background(), random)
		line, err := json.Marshal(w)
		check(err)
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", line)
	}
	fmt.Fprint(out, "\n]\n")
}
