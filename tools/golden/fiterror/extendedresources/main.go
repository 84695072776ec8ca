// Command extendedresources prints the requests and mappings of the claims that kube-scheduler
// creates for the extended resources of pods, as JSON.
//
// Run it from the directory above:
//
//	go run ./extendedresources > ../../../tests/golden/extendedresources.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

const (
	cases = 400
	seed  = 41
)

//go:linkname createRequestsAndMappings k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.createRequestsAndMappings
func createRequestsAndMappings(
	pod *v1.Pod,
	extendedResources map[v1.ResourceName]int64,
	logger klog.Logger,
	deviceClassMapping fwk.DeviceClassResolver,
) ([]resourceapi.DeviceRequest, []v1.ContainerExtendedResourceRequest)

// container is one container, with its requests.
type container struct {
	Name      string            `json:"name"`
	IsInit    bool              `json:"init,omitempty"`
	IsSidecar bool              `json:"sidecar,omitempty"`
	Requests  map[string]string `json:"requests"`
}

// row is one pod, the class of each resource that DRA serves, and kube-scheduler's answer: name,
// class and count of each request; container, resource and request of each mapping.
type row struct {
	Containers []container       `json:"containers"`
	Classes    map[string]string `json:"classes"`
	Requests   [][]any           `json:"requests"`
	Mappings   [][]string        `json:"mappings"`
}

type classes map[string]string

func (known classes) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	class, found := known[string(name)]
	if !found {
		return nil
	}
	answer := &resourceapi.DeviceClass{}
	answer.Name = class
	return answer
}

var resources = []string{"a.example/x", "nvidia.com/gpu", "z.example/y"}

func draw(random *rand.Rand) row {
	drawn := row{Classes: map[string]string{}, Requests: [][]any{}, Mappings: [][]string{}}
	for number := range random.Intn(4) {
		one := drawContainer(random, fmt.Sprintf("init-%d", number))
		one.IsInit, one.IsSidecar = true, random.Intn(3) == 0
		drawn.Containers = append(drawn.Containers, one)
	}
	for number := range 1 + random.Intn(3) {
		drawn.Containers = append(drawn.Containers, drawContainer(random, fmt.Sprintf("app-%d", number)))
	}
	for number, name := range resources {
		if random.Intn(4) > 0 {
			drawn.Classes[name] = fmt.Sprintf("class-%d", number)
		}
	}
	return drawn
}

func drawContainer(random *rand.Rand, name string) container {
	one := container{Name: name, Requests: map[string]string{}}
	for _, name := range resources {
		if random.Intn(2) == 0 {
			one.Requests[name] = fmt.Sprint(random.Intn(5))
		}
	}
	for _, name := range []string{"cpu", "memory", "nvidia.com/aaa"} {
		if random.Intn(3) == 0 {
			one.Requests[name] = "1"
		}
	}
	return one
}

func answer(drawn *row) {
	pod := &v1.Pod{}
	asked := map[v1.ResourceName]int64{}
	for _, one := range drawn.Containers {
		made := v1.Container{Name: one.Name}
		made.Resources.Requests = v1.ResourceList{}
		for name, amount := range one.Requests {
			quantity := resource.MustParse(amount)
			made.Resources.Requests[v1.ResourceName(name)] = quantity
			if _, found := drawn.Classes[name]; found {
				asked[v1.ResourceName(name)] += quantity.Value()
			}
		}
		if one.IsSidecar {
			always := v1.ContainerRestartPolicyAlways
			made.RestartPolicy = &always
		}
		if one.IsInit {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, made)
		}
	}
	requests, mappings := createRequestsAndMappings(pod, asked, klog.Background(), classes(drawn.Classes))
	for _, one := range requests {
		drawn.Requests = append(drawn.Requests, []any{one.Name, one.Exactly.DeviceClassName, one.Exactly.Count})
	}
	for _, one := range mappings {
		drawn.Mappings = append(drawn.Mappings, []string{one.ContainerName, one.ResourceName, one.RequestName})
	}
}

func main() {
	random := rand.New(rand.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for number := range cases {
		drawn := draw(random)
		answer(&drawn)
		line, err := json.Marshal(drawn)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		separator := ",\n"
		if number == 0 {
			separator = "[\n"
		}
		fmt.Fprint(out, separator, string(line))
	}
	fmt.Fprint(out, "\n]\n")
}
