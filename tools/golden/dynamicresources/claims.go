package main

import (
	"fmt"
	"math/rand"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func selector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

func config(text string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: gpu, Parameters: runtime.RawExtension{Raw: []byte(`{"a":"` + text + `"}`)},
	}}
}

func classes(random *rand.Rand) []*resourceapi.DeviceClass {
	any := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}}
	gpus := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}}
	gpus.Spec.Selectors = []resourceapi.DeviceSelector{selector(`device.driver == "gpu.example.com"`)}
	for i := 0; i < random.Intn(3); i++ {
		gpus.Spec.Config = append(gpus.Spec.Config, resourceapi.DeviceClassConfiguration{
			DeviceConfiguration: config(fmt.Sprintf("class-%d", i)),
		})
	}
	nics := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nics"}}
	nics.Spec.Selectors = []resourceapi.DeviceSelector{selector(`device.driver == "nic.example.com"`)}
	if chance(random, 30) {
		nics.Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: config("nics")}}
	}
	return []*resourceapi.DeviceClass{any, gpus, nics}
}

func selectors(random *rand.Rand) []resourceapi.DeviceSelector {
	switch {
	case chance(random, 75):
		return nil
	case chance(random, 40):
		return []resourceapi.DeviceSelector{selector(fmt.Sprintf(
			`device.attributes[device.driver].model == %q`, one(random, "a", "b")))}
	case chance(random, 50):
		return []resourceapi.DeviceSelector{selector(fmt.Sprintf(
			`device.attributes["gpu.example.com"].?size.orValue(0) == %d`, one(random, 1, 2)))}
	case chance(random, 15): // fails where the attribute is missing
		return []resourceapi.DeviceSelector{selector(`device.attributes["gpu.example.com"].numa == 1`)}
	}
	return []resourceapi.DeviceSelector{selector(`device.driver == "gpu.example.com"`)}
}

func tolerations(random *rand.Rand) []resourceapi.DeviceToleration {
	if chance(random, 50) {
		return nil
	}
	return []resourceapi.DeviceToleration{one(random,
		resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists},
		resourceapi.DeviceToleration{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule},
		resourceapi.DeviceToleration{Key: "slow", Operator: resourceapi.DeviceTolerationOpEqual, Value: "yes"},
	)}
}

func capacityRequest(random *rand.Rand) *resourceapi.CapacityRequirements {
	if chance(random, 70) {
		return nil
	}
	found := map[resourceapi.QualifiedName]resource.Quantity{
		"memory": quantity(one(random, "1Gi", "1500Mi", "3Gi", "5Gi", "7Gi", "10Gi")),
	}
	if chance(random, 30) {
		found["cores"] = quantity(one(random, "1", "600m", "100m", "2300m"))
	}
	if chance(random, 20) {
		found["cores"] = quantity(one(random, "700u", "900500u")) // finer than milli units
	}
	return &resourceapi.CapacityRequirements{Requests: found}
}

func mode(random *rand.Rand) (resourceapi.DeviceAllocationMode, int64) {
	if chance(random, 6) {
		return resourceapi.DeviceAllocationModeAll, 0
	}
	if random.Intn(200) == 0 {
		return resourceapi.DeviceAllocationModeExactCount, 33
	}
	return resourceapi.DeviceAllocationModeExactCount, one(random, int64(1), 1, 1, 1, 2, 3)
}

func request(random *rand.Rand, name string) resourceapi.DeviceRequest {
	found := resourceapi.DeviceRequest{Name: name}
	if chance(random, 25) {
		for i := 0; i < 1+random.Intn(3); i++ {
			mode, count := mode(random)
			found.FirstAvailable = append(found.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: fmt.Sprintf("sub%d", i), DeviceClassName: one(random, "any", "gpus", "nics"),
				Selectors: selectors(random), AllocationMode: mode, Count: count,
				Tolerations: tolerations(random), Capacity: capacityRequest(random),
			})
		}
		return found
	}
	mode, count := mode(random)
	found.Exactly = &resourceapi.ExactDeviceRequest{
		DeviceClassName: one(random, "any", "gpus", "nics", "nics"),
		Selectors:       selectors(random), AllocationMode: mode, Count: count,
		Tolerations: tolerations(random), Capacity: capacityRequest(random),
	}
	if chance(random, 8) {
		found.Exactly.AdminAccess = ptr.To(true)
	}
	return found
}

// names are some names of requests and subrequests; none means all.
func names(random *rand.Rand, requests []resourceapi.DeviceRequest) []string {
	var found []string
	for _, one := range requests {
		if chance(random, 60) {
			continue
		}
		if len(one.FirstAvailable) > 0 && chance(random, 50) {
			found = append(found, one.Name+"/"+one.FirstAvailable[0].Name)
			continue
		}
		found = append(found, one.Name)
	}
	return found
}

func claims(random *rand.Rand, step int) []*resourceapi.ResourceClaim {
	var found []*resourceapi.ResourceClaim
	count := one(random, 1, 1, 2)
	for i := 0; i < count; i++ {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d-%d", step, i), Namespace: "team"}}
		devices := &claim.Spec.Devices
		requests := one(random, 1, 1, 2, 2, 3)
		for j := 0; j < requests; j++ {
			devices.Requests = append(devices.Requests, request(random, fmt.Sprintf("req%d", j)))
		}
		if chance(random, 25) {
			name := resourceapi.FullyQualifiedName(one(random, gpu+"/model", gpu+"/numa", rack+"/root", rack+"/mixed"))
			constraint := resourceapi.DeviceConstraint{Requests: names(random, devices.Requests)}
			if chance(random, 65) {
				constraint.MatchAttribute = &name
			} else {
				constraint.DistinctAttribute = &name
			}
			devices.Constraints = append(devices.Constraints, constraint)
		}
		if chance(random, 25) {
			devices.Config = append(devices.Config, resourceapi.DeviceClaimConfiguration{
				Requests: names(random, devices.Requests), DeviceConfiguration: config("claim"),
			})
		}
		found = append(found, claim)
	}
	return found
}
