package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	gpu  = "gpu.example.com"
	nic  = "nic.example.com"
	rack = "rack.example.com"
)

func chance(random *rand.Rand, percent int) bool { return random.Intn(100) < percent }

func one[T any](random *rand.Rand, values ...T) T { return values[random.Intn(len(values))] }

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func newWorld(random *rand.Rand) *world {
	w := &world{Classes: classes(random)}
	nodes := 1 + random.Intn(2)
	for i := 0; i < nodes; i++ {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("n%d", i),
			Labels: map[string]string{"zone": one(random, "a", "b")},
		}}
		if chance(random, 50) {
			node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
		}
		w.Nodes = append(w.Nodes, node)
		w.add(local(random, node.Name, gpu)...)
		if chance(random, 40) {
			w.add(local(random, node.Name, nic)...)
		}
		if chance(random, 50) {
			w.add(partitioned(random, node.Name)...)
		}
	}
	if chance(random, 60) {
		w.add(shared(random, len(w.Nodes))...)
	}
	// The order of a list is not the order of names.
	random.Shuffle(len(w.Slices), func(i, j int) { w.Slices[i], w.Slices[j] = w.Slices[j], w.Slices[i] })
	return w
}

func (w *world) add(slices ...*resourceapi.ResourceSlice) { w.Slices = append(w.Slices, slices...) }

func newSlice(name, driver, pool string, generation, count int64) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver,
			Pool:   resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count},
		},
	}
}

// local are the devices of one driver on one node: in one or two slices, of which one may be
// missing, with slices of an older generation.
func local(random *rand.Rand, node, driver string) []*resourceapi.ResourceSlice {
	generation := int64(1 + random.Intn(2))
	count := 1 + random.Intn(2)
	var found []*resourceapi.ResourceSlice
	number := 0
	for i := 0; i < count; i++ {
		name := fmt.Sprintf("%s-%s-%d", node, driver[:3], i)
		slice := newSlice(name, driver, node+"-"+driver[:3], generation, int64(count))
		slice.Spec.NodeName = ptr.To(node)
		devices := 2 + random.Intn(3)
		for j := 0; j < devices; j++ {
			slice.Spec.Devices = append(slice.Spec.Devices, device(random, fmt.Sprintf("%s-%d", driver[:3], number)))
			if !chance(random, 1) { // else the next device has the same name
				number++
			}
		}
		if chance(random, 10) {
			slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		}
		found = append(found, slice)
	}
	if count == 2 && chance(random, 8) {
		found = found[:1] // incomplete
	}
	if generation == 2 && chance(random, 40) {
		old := newSlice(fmt.Sprintf("%s-%s-old", node, driver[:3]), driver, node+"-"+driver[:3], 1, 1)
		old.Spec.NodeName = ptr.To(node)
		old.Spec.Devices = []resourceapi.Device{device(random, "old")}
		found = append(found, old)
	}
	return found
}

func device(random *rand.Rand, name string) resourceapi.Device {
	found := resourceapi.Device{Name: name, Attributes: attributes(random)}
	if chance(random, 15) {
		found.Taints = append(found.Taints, resourceapi.DeviceTaint{
			Key: one(random, "broken", "slow"), Value: one(random, "", "yes"),
			Effect: one(random, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone),
		})
	}
	if chance(random, 30) {
		found.Capacity = capacities(random)
		if chance(random, 70) {
			found.AllowMultipleAllocations = ptr.To(true)
			policies(random, found.Capacity)
		}
	} else if chance(random, 10) {
		found.AllowMultipleAllocations = ptr.To(true)
	}
	if chance(random, 10) {
		found.BindingConditions = []string{"example.com/ready"}
		found.BindingFailureConditions = []string{"example.com/failed"}
		found.BindsToNode = ptr.To(chance(random, 50))
	}
	return found
}

func attributes(random *rand.Rand) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	found := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: ptr.To(one(random, "a", "b"))},
	}
	if chance(random, 80) {
		found["numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(random.Intn(2)))}
	}
	if chance(random, 60) {
		found[rack+"/root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(one(random, "r0", "r1", "r2"))}
	}
	switch random.Intn(6) {
	case 0:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
	case 1:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1))}
	case 2:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")}
	case 3:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{StringValue: ptr.To("1.0.0")}
	case 4:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{StringValues: []string{one(random, "x", "y"), "1.0.0"}}
	case 5:
		found[rack+"/mixed"] = resourceapi.DeviceAttribute{IntValues: []int64{1, int64(random.Intn(3))}}
	}
	return found
}

func capacities(random *rand.Rand) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	found := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"memory": {Value: quantity(one(random, "4Gi", "8Gi", "10Gi"))},
	}
	if chance(random, 60) {
		found["cores"] = resourceapi.DeviceCapacity{Value: quantity(one(random, "4", "2500m"))}
	}
	return found
}

func policies(random *rand.Rand, capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) {
	if memory := capacity["memory"]; chance(random, 70) {
		memory.RequestPolicy = one(random,
			&resourceapi.CapacityRequestPolicy{
				Default:     ptr.To(quantity("1Gi")),
				ValidValues: []resource.Quantity{quantity("1Gi"), quantity("2Gi"), quantity("4Gi")},
			},
			&resourceapi.CapacityRequestPolicy{
				Default: ptr.To(quantity("2Gi")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{
					Min: ptr.To(quantity("1Gi")), Max: ptr.To(quantity("6Gi")), Step: ptr.To(quantity("512Mi")),
				},
			},
			&resourceapi.CapacityRequestPolicy{
				Default:    ptr.To(quantity("1Gi")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(quantity("1Gi"))},
			},
		)
		capacity["memory"] = memory
	}
	if cores, ok := capacity["cores"]; ok && chance(random, 70) {
		cores.RequestPolicy = one(random,
			&resourceapi.CapacityRequestPolicy{
				Default: ptr.To(quantity("500m")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{
					Min: ptr.To(quantity("250m")), Step: ptr.To(quantity("250m")),
				},
			},
			&resourceapi.CapacityRequestPolicy{
				Default: ptr.To(quantity("1")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{
					Min: ptr.To(quantity("1")), Max: ptr.To(quantity("4")), Step: ptr.To(quantity("1")),
				},
			},
		)
		capacity["cores"] = cores
	}
}

// partitioned are devices of one node that share the counters of a card: its whole, halves and
// quarters.
func partitioned(random *rand.Rand, node string) []*resourceapi.ResourceSlice {
	pool := node + "-cards"
	counters := newSlice(pool+"-c", gpu, pool, 1, 2)
	counters.Spec.NodeName = ptr.To(node)
	devices := newSlice(pool+"-d", gpu, pool, 1, 2)
	devices.Spec.NodeName = ptr.To(node)
	hasGroups := chance(random, 30)
	for card := 0; card < 1+random.Intn(2); card++ {
		set := fmt.Sprintf("card-%d", card)
		values := map[string]resourceapi.Counter{}
		for slice := 0; slice < 4; slice++ {
			values[fmt.Sprintf("slice-%d", slice)] = resourceapi.Counter{Value: quantity("1")}
		}
		values["memory"] = resourceapi.Counter{Value: quantity("38Gi")}
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: values})
		for _, size := range one(random, []int{4, 2, 1}, []int{1, 2, 4}, []int{2, 1}) {
			for start := 0; start < 4; start += size {
				part := device(random, fmt.Sprintf("card-%d-%d-%d", card, size, start))
				part.Capacity, part.AllowMultipleAllocations = nil, nil
				if chance(random, 10) {
					part.AllowMultipleAllocations = ptr.To(true)
				}
				use := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: map[string]resourceapi.Counter{
					"memory": {Value: quantity(fmt.Sprintf("%dMi", 10240*size))},
				}}
				for slice := start; slice < start+size; slice++ {
					use.Counters[fmt.Sprintf("slice-%d", slice)] = resourceapi.Counter{Value: quantity("1")}
				}
				if hasGroups && chance(random, 70) {
					use.CompatibilityGroups = one(random, []string{"x"}, []string{"y"}, []string{"x", "y"})
				}
				part.ConsumesCounters = []resourceapi.DeviceCounterConsumption{use}
				part.Attributes["size"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(size))}
				devices.Spec.Devices = append(devices.Spec.Devices, part)
			}
		}
	}
	if chance(random, 3) { // an unknown counter: the pool is invalid
		devices.Spec.Devices[0].ConsumesCounters[0].Counters["unknown"] = resourceapi.Counter{Value: quantity("1")}
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

// shared are devices that several nodes can use.
func shared(random *rand.Rand, nodes int) []*resourceapi.ResourceSlice {
	everywhere := newSlice("everywhere", nic, "everywhere", 1, 1)
	everywhere.Spec.AllNodes = ptr.To(true)
	everywhere.Spec.Devices = []resourceapi.Device{device(random, "net-0"), device(random, "net-1")}
	zone := newSlice("zone-a", nic, "zone", 1, 2)
	zone.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}
	zone.Spec.Devices = []resourceapi.Device{device(random, "zone-0"), device(random, "zone-1")}
	each := newSlice("zone-each", nic, "zone", 1, 2)
	each.Spec.PerDeviceNodeSelection = ptr.To(true)
	for i := 0; i < nodes; i++ {
		found := device(random, fmt.Sprintf("each-%d", i))
		found.NodeName = ptr.To(fmt.Sprintf("n%d", i))
		each.Spec.Devices = append(each.Spec.Devices, found)
	}
	all := device(random, "each-all")
	all.AllNodes = ptr.To(true)
	each.Spec.Devices = append(each.Spec.Devices, all)
	found := []*resourceapi.ResourceSlice{everywhere, zone, each}
	if chance(random, 10) {
		newer := newSlice("zone-new", nic, "zone", 2, 1) // for no node of the world
		newer.Spec.NodeName = ptr.To("elsewhere")
		newer.Spec.Devices = []resourceapi.Device{device(random, "new")}
		found = append(found, newer)
	}
	return found
}
