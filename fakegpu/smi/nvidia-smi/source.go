package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// The default tells the driver's versions where they are not set.
const (
	defaultDriver = "470.129.06"
	defaultCuda   = "11.4"
	mounted       = "/run/fake-gpu/devices"
	readingFile   = "reading.json"
	askFor        = 5 * time.Second
)

// failure is an end that a person reads: one line for stdout, its cause for stderr, a status.
type failure struct {
	text   string
	cause  error
	status int
}

func (f *failure) Error() string { return f.text }

var errNoDevices = &failure{text: "No devices were found", status: 1}

// find returns the GPUs that may be seen from here: the folders that the device plugin has mounted,
// else those of the whole node, else what the topology server says of this pod.
func find() ([]GPU, error) {
	if folder := os.Getenv("FAKE_GPU_DEVICES"); folder != "" {
		return readFolder(folder, true)
	}
	if isFolder(mounted) {
		return readFolder(mounted, true)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "..", "devices")
		if isFolder(beside) && filepath.Base(filepath.Dir(self)) == "bin" {
			return readFolder(beside, false)
		}
	}
	return askServer()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readFolder reads one reading for each device; in a container GPUs are numbered from 0 on.
func readFolder(folder string, renumber bool) ([]GPU, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, &failure{"No devices were found", err, 1}
	}
	found := map[string]*GPU{}
	whole := map[string]bool{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name(), readingFile))
		if err != nil {
			continue
		}
		var gpu GPU
		if err := json.Unmarshal(content, &gpu); err != nil {
			return nil, &failure{"Failed to parse devices data", err, 1}
		}
		if gpu.UUID == "" {
			continue // the device does not exist any more
		}
		isWhole := entry.Name() == gpu.UUID
		known := found[gpu.UUID]
		switch {
		case known == nil || (isWhole && !whole[gpu.UUID]):
			found[gpu.UUID], whole[gpu.UUID] = &gpu, isWhole
		case !whole[gpu.UUID] && !isWhole:
			known.Instances = append(known.Instances, gpu.Instances...)
		}
	}
	return sorted(found, renumber)
}

func sorted(found map[string]*GPU, renumber bool) ([]GPU, error) {
	gpus := make([]GPU, 0, len(found))
	for _, gpu := range found {
		sort.Slice(gpu.Instances, func(a, b int) bool {
			return gpu.Instances[a].Number < gpu.Instances[b].Number
		})
		gpus = append(gpus, *gpu)
	}
	sort.Slice(gpus, func(a, b int) bool { return gpus[a].Index < gpus[b].Index })
	share := 1.0
	if renumber {
		share = min(1, numberOfGPUs())
	}
	for number := range gpus {
		if renumber {
			gpus[number].Index = number
			gpus[number].MemoryTotal = int(float64(gpus[number].MemoryTotal) * share)
			gpus[number].MemoryUsed = int(float64(gpus[number].MemoryUsed) * share)
			for i := range gpus[number].Instances {
				gpus[number].Instances[i].Number = i
			}
		}
	}
	if len(gpus) == 0 {
		return nil, errNoDevices
	}
	return gpus, nil
}

// topology is the topology server's answer, as far as it is read.
type topology struct {
	GpuMemory     int
	GpuProduct    string
	DriverVersion string
	CudaVersion   string
	Gpus          []struct {
		ID     string
		Status struct {
			AllocatedBy       struct{ Namespace, Pod string }
			PodGpuUsageStatus map[string]struct {
				Utilization struct{ Min, Max int }
				FbUsed      int
			}
		}
	}
}

func askServer() ([]GPU, error) {
	node := os.Getenv("NODE_NAME")
	if node == "" {
		return nil, &failure{
			"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. " +
				"Make sure that the latest NVIDIA driver is installed and running.\n",
			errors.New("no device was given to this container, and NODE_NAME is not set"), 9,
		}
	}
	server := os.Getenv("TOPOLOGY_SERVER")
	if server == "" {
		server = "http://topology-server.gpu-operator"
	}
	client := http.Client{Timeout: askFor}
	answer, err := client.Get(strings.TrimRight(server, "/") + "/topology/nodes/" + url.PathEscape(node))
	if err != nil {
		return nil, &failure{
			"NVIDIA-SMI has failed because it couldn't communicate with the topology server.", err, 1,
		}
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		cause := fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(content)))
		return nil, &failure{"No devices were found", cause, 1}
	}
	var known topology
	if err := json.Unmarshal(content, &known); err != nil {
		return nil, &failure{"Failed to parse devices data", err, 1}
	}
	gpus := ofPod(known, pod{namespace(), os.Getenv("HOSTNAME"), os.Getenv("POD_UUID")})
	if len(gpus) == 0 {
		return nil, errNoDevices
	}
	return gpus, nil
}

// pod is the caller; the uid is the only sure one of the three.
type pod struct{ namespace, name, uid string }

const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is empty where it is not known: then a pod is known by its name alone.
func namespace() string {
	if told := os.Getenv("POD_NAMESPACE"); told != "" {
		return told
	}
	content, err := os.ReadFile(ownNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

func (asking pod) holds(namespace, name string) bool {
	return asking.uid == "" && asking.name == name &&
		(asking.namespace == "" || asking.namespace == namespace)
}

// ofPod picks what a pod uses: by its uid, else by its name in its namespace.
func ofPod(known topology, asking pod) []GPU {
	share := numberOfGPUs()
	var gpus []GPU
	for _, one := range known.Gpus {
		usage, shares := one.Status.PodGpuUsageStatus[asking.uid]
		holder := one.Status.AllocatedBy
		if !shares && !asking.holds(holder.Namespace, holder.Pod) {
			continue
		}
		if !shares {
			for _, any := range one.Status.PodGpuUsageStatus {
				usage = any
			}
		}
		gpu := plain(known, len(gpus), one.ID, share)
		gpu.MemoryUsed = int(float64(usage.FbUsed) * share)
		gpu.Utilization = (usage.Utilization.Min + usage.Utilization.Max) / 2
		gpus = append(gpus, gpu)
	}
	return gpus
}

func plain(known topology, index int, id string, share float64) GPU {
	driver, cuda := known.DriverVersion, known.CudaVersion
	if driver == "" {
		driver = defaultDriver
	}
	if cuda == "" {
		cuda = defaultCuda
	}
	return GPU{
		Index: index, UUID: id, Name: known.GpuProduct, DriverVersion: driver, CudaVersion: cuda,
		ComputeCapability: "8.0", MemoryTotal: int(float64(known.GpuMemory) * share),
		Temperature: 33, PowerDraw: 11, PowerLimit: 70, SMClock: 210, MemoryClock: 1215,
	}
}

// numberOfGPUs is the share of a GPU that a pod was promised: it scales the memory that it sees.
func numberOfGPUs() float64 {
	text := os.Getenv("RUNAI_NUM_OF_GPUS")
	if text == "" {
		return 1
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || share <= 0 {
		fmt.Fprintf(os.Stderr, "RUNAI_NUM_OF_GPUS: %q is not a number above 0\n", text)
		return 1
	}
	return share
}
