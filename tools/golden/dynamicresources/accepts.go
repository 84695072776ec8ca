package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// beta are the features that kube-scheduler has on by default.
var beta = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// identity is an attribute by which a selector can name devices.
const identity = "check.example.com"

// question is whether claims can have these allocations on a node.
type question struct {
	Node      *v1.Node                       `json:"node"`
	Slices    []*resourceapi.ResourceSlice   `json:"slices"`
	Classes   []*resourceapi.DeviceClass     `json:"classes"`
	Allocated []*resourceapi.ResourceClaim   `json:"allocated"`
	Claims    []*resourceapi.ResourceClaim   `json:"claims"`
	Given     []resourceapi.AllocationResult `json:"given"`
}

// accept answers one question per line with a problem, or with an empty text.
func accept(in io.Reader, out io.Writer) {
	lines := bufio.NewReader(in)
	cache := cel.NewCache(1000, cel.Features{})
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		check(err)
		var asked question
		check(json.Unmarshal(line, &asked))
		answer, err := json.Marshal(asked.problem(cache))
		check(err)
		fmt.Fprintf(out, "%s\n", answer)
	}
}

// problem lets the real allocator choose among the given devices only: it must find all of them.
func (q *question) problem(cache *cel.Cache) string {
	classes := classLister{}
	for _, one := range q.Classes {
		classes[one.Name] = one
	}
	allocated := map[string]*resourceapi.ResourceClaim{}
	for _, one := range q.Allocated {
		allocated[one.Namespace+"/"+one.Name] = one
	}
	for _, slice := range q.Slices {
		for i := range slice.Spec.Devices {
			name(slice, &slice.Spec.Devices[i])
		}
	}
	for i, claim := range q.Claims {
		if err := narrow(claim, q.Given[i].Devices.Results); err != nil {
			return err.Error()
		}
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, beta, stateOf(allocated), classes, q.Slices, cache)
	check(err)
	found, err := allocator.Allocate(ctx, q.Node, q.Claims)
	if err != nil {
		return err.Error()
	}
	if len(found) != len(q.Claims) {
		return "the allocator finds nothing"
	}
	for i, claim := range q.Claims {
		theirs, ours := list(found[i]), list(q.Given[i])
		if theirs != ours {
			return fmt.Sprintf("claim %s: the allocator finds %s, not %s", claim.Name, theirs, ours)
		}
	}
	return ""
}

func id(driver, pool, device string) string { return driver + "/" + pool + "/" + device }

func name(slice *resourceapi.ResourceSlice, device *resourceapi.Device) {
	if device.Attributes == nil {
		device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	}
	text := id(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
	device.Attributes[identity+"/id"] = resourceapi.DeviceAttribute{StringValue: ptr.To(text)}
}

// narrow lets each request of a claim have its results only, and the subrequest that they name.
func narrow(claim *resourceapi.ResourceClaim, results []resourceapi.DeviceRequestAllocationResult) error {
	devices := map[string][]string{}
	for _, one := range results {
		text := id(one.Driver, one.Pool, one.Device)
		devices[one.Request] = append(devices[one.Request], fmt.Sprintf("%q", text))
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if request.Exactly != nil {
			withDefaults(&request.Exactly.AllocationMode, &request.Exactly.Count)
			request.Exactly.Selectors = before(request.Exactly.Selectors, devices[request.Name])
			continue
		}
		var met []resourceapi.DeviceSubRequest
		for _, sub := range request.FirstAvailable {
			if some := devices[request.Name+"/"+sub.Name]; some != nil {
				withDefaults(&sub.AllocationMode, &sub.Count)
				sub.Selectors = before(sub.Selectors, some)
				met = append(met, sub)
			}
		}
		if len(met) != 1 {
			return fmt.Errorf("claim %s: %d subrequests of %s are met", claim.Name, len(met), request.Name)
		}
		request.FirstAvailable = met
	}
	return nil
}

// withDefaults sets what the API server sets.
func withDefaults(mode *resourceapi.DeviceAllocationMode, count *int64) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
}

// before puts a selector of these devices first: the others may fail on other devices.
func before(selectors []resourceapi.DeviceSelector, ids []string) []resourceapi.DeviceSelector {
	text := fmt.Sprintf("device.attributes[%q].id in [%s]", identity, strings.Join(ids, ", "))
	return append([]resourceapi.DeviceSelector{selector(text)}, selectors...)
}

// list is an allocation as a text: its devices and what it takes of them.
func list(allocation resourceapi.AllocationResult) string {
	var found []string
	for _, one := range allocation.Devices.Results {
		text := fmt.Sprintf("%s=%s", one.Request, id(one.Driver, one.Pool, one.Device))
		if ptr.Deref(one.AdminAccess, false) {
			text += " admin"
		}
		var amounts []string
		for name, amount := range one.ConsumedCapacity {
			amounts = append(amounts, fmt.Sprintf(" %s:%s", name, amount.AsDec().String()))
		}
		sort.Strings(amounts)
		found = append(found, text+strings.Join(amounts, ""))
	}
	sort.Strings(found)
	return strings.Join(found, ", ")
}
