package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"time"
)

const (
	inner      = 78
	outerFrame = "+" + "------------------------------------------------------------------------------" + "+"
	gpuFrame   = "+--------------------------------+----------------------+----------------------+"
)

// table is what nvidia-smi prints without any flag.
func table(gpus []GPU, now time.Time) string {
	var out strings.Builder
	line := func(format string, words ...any) { fmt.Fprintf(&out, format+"\n", words...) }
	line("%s", now.Format(time.ANSIC))
	line(outerFrame)
	title := fmt.Sprintf("NVIDIA-SMI %s   Driver Version: %s   CUDA Version: %s",
		gpus[0].DriverVersion, gpus[0].DriverVersion, gpus[0].CudaVersion)
	line("| %-*s|", inner-1, title)
	line(gpuFrame)
	line("| GPU  Name        Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |")
	line("| Fan  Temp  Perf  Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |")
	line("|                                |                      |               MIG M. |")
	line(gpuFrame)
	for _, gpu := range gpus {
		util, mode := fmt.Sprintf("%d%%", gpu.Utilization), "N/A"
		if gpu.HasMIG {
			util, mode = "N/A", "Enabled"
		}
		line("|%4d  %-12s          Off | %s Off |                  Off |",
			gpu.Index, shortName(gpu.Name), busID)
		memory := fmt.Sprintf("%dMiB / %dMiB", gpu.MemoryUsed, gpu.MemoryTotal)
		line("| N/A   33C    P8    11W /  70W  |%21s |%9s%12s |", memory, util, "Default")
		line("|                                |                      |%21s |", mode)
		line(gpuFrame)
	}
	line("")
	if hasInstances(gpus) {
		out.WriteString(instances(gpus))
	}
	out.WriteString(processes(gpus))
	return out.String()
}

// shortName fits a product into the table's twelve columns.
func shortName(name string) string {
	name = strings.ReplaceAll(name, " ", "-")
	if len(name) > 12 {
		return name[:10] + ".."
	}
	return name
}

func hasInstances(gpus []GPU) bool {
	for _, gpu := range gpus {
		if len(gpu.Instances) > 0 {
			return true
		}
	}
	return false
}

const migFrame = "+------------------+----------------------+-----------+------------------------+"

func instances(gpus []GPU) string {
	var out strings.Builder
	line := func(format string, words ...any) { fmt.Fprintf(&out, format+"\n", words...) }
	line(outerFrame)
	line("| %-*s|", inner-1, "MIG devices:")
	line(migFrame)
	line("| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared         |")
	line("|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG |")
	line("|                  |                      |        ECC|                        |")
	line(migFrame)
	for _, gpu := range gpus {
		for _, one := range gpu.Instances {
			memory := fmt.Sprintf("%dMiB / %dMiB", one.MemoryUsed, one.MemoryTotal)
			line("|%3d %4d %3d %3d   |%21s | %-3s     0 |%3s   0    1    0    0    |",
				gpu.Index, one.GIID, 0, one.Number, memory, slices(one.Profile), slices(one.Profile))
			line("|                  |%21s |           |                        |", "0MiB / 32767MiB")
			line(migFrame)
		}
	}
	line("")
	return out.String()
}

// slices is the number of compute slices that a profile names.
func slices(profile string) string {
	number, _, _ := strings.Cut(profile, "g.")
	return number
}

func processes(gpus []GPU) string {
	var out strings.Builder
	line := func(format string, words ...any) { fmt.Fprintf(&out, format+"\n", words...) }
	line(outerFrame)
	line("| %-*s|", inner-1, "Processes:")
	line("|  GPU   GI   CI        PID   Type   Process name                  GPU Memory  |")
	line("|        ID   ID                                                   Usage       |")
	line(outerFrame)
	if process := mainProcess(); process.name != "" {
		memory := fmt.Sprintf("%dMiB", gpus[0].MemoryUsed)
		// A column wider than its frame, as the seed's program prints it.
		line("|%5d   N/A  N/A  %10d    G   %-28s%14s  |",
			gpus[0].Index, process.id, process.name, memory)
	} else {
		line("| %-*s|", inner-1, " No running processes found")
	}
	line(outerFrame)
	return out.String()
}

type process struct {
	id   int
	name string
}

const firstProcess = "/proc/1/cmdline"

// mainProcess is the container's first process, under a number as the machine would know it.
func mainProcess() process {
	path := firstProcess
	if other := os.Getenv("FAKE_GPU_PROCESS"); other != "" {
		path = other
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return process{}
	}
	if len(content) > 50 {
		content = content[:50]
	}
	name := strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " "))
	if len(name) > 28 {
		name = name[:26] + ".."
	}
	digest := fnv.New32a()
	digest.Write([]byte(os.Getenv("HOSTNAME")))
	return process{10000 + int(digest.Sum32()%50000), name}
}
