package main

import (
	"fmt"
	"strings"
	"time"
)

// list answers -L.
func list(gpus []GPU) string {
	var out strings.Builder
	for _, gpu := range gpus {
		fmt.Fprintf(&out, "GPU %d: %s (UUID: %s)\n", gpu.Index, gpu.Name, gpu.UUID)
		for _, one := range gpu.Instances {
			fmt.Fprintf(&out, "  MIG %-12s Device %2d: (UUID: %s)\n", one.Profile, one.Number, one.UUID)
		}
	}
	return out.String()
}

// full answers -q: sections with a name and a value on each line.
func full(gpus []GPU, now time.Time) string {
	var out strings.Builder
	row := func(depth int, name, value string) {
		fmt.Fprintf(&out, "%s%-*s: %s\n", strings.Repeat("    ", depth), 42-4*depth, name, value)
	}
	section := func(depth int, name string) {
		fmt.Fprintf(&out, "%s%s\n", strings.Repeat("    ", depth), name)
	}
	out.WriteString("\n==============NVSMI LOG==============\n\n")
	row(0, "Timestamp", now.Format(time.ANSIC))
	row(0, "Driver Version", gpus[0].DriverVersion)
	row(0, "CUDA Version", gpus[0].CudaVersion)
	out.WriteString("\n")
	row(0, "Attached GPUs", fmt.Sprint(len(gpus)))
	main := mainProcess()
	for _, gpu := range gpus {
		fmt.Fprintf(&out, "GPU %s\n", busID)
		row(1, "Product Name", gpu.Name)
		row(1, "Persistence Mode", "Disabled")
		section(1, "MIG Mode")
		row(2, "Current", strings.Trim(gpu.migMode(), "[]"))
		row(2, "Pending", strings.Trim(gpu.migMode(), "[]"))
		for _, one := range gpu.Instances {
			section(1, "MIG Device")
			row(2, "Index", fmt.Sprint(one.Number))
			row(2, "GPU Instance ID", fmt.Sprint(one.GIID))
			row(2, "Compute Instance ID", "0")
			section(2, "FB Memory Usage")
			row(3, "Total", fmt.Sprintf("%d MiB", one.MemoryTotal))
			row(3, "Used", fmt.Sprintf("%d MiB", one.MemoryUsed))
			row(3, "Free", fmt.Sprintf("%d MiB", one.MemoryTotal-one.MemoryUsed))
		}
		row(1, "GPU UUID", gpu.UUID)
		row(1, "Minor Number", fmt.Sprint(gpu.Index))
		section(1, "PCI")
		row(2, "Bus Id", busID)
		row(1, "Fan Speed", "N/A")
		row(1, "Performance State", gpu.state())
		section(1, "FB Memory Usage")
		row(2, "Total", fmt.Sprintf("%d MiB", gpu.MemoryTotal))
		row(2, "Used", fmt.Sprintf("%d MiB", gpu.MemoryUsed))
		row(2, "Free", fmt.Sprintf("%d MiB", gpu.MemoryTotal-gpu.MemoryUsed))
		row(1, "Compute Mode", "Default")
		section(1, "Utilization")
		util := fmt.Sprintf("%d %%", gpu.Utilization)
		if gpu.HasMIG {
			util = "N/A"
		}
		row(2, "Gpu", util)
		row(2, "Memory", fmt.Sprintf("%d %%", 100*gpu.MemoryUsed/max(1, gpu.MemoryTotal)))
		section(1, "Temperature")
		row(2, "GPU Current Temp", fmt.Sprintf("%d C", gpu.Temperature))
		section(1, "GPU Power Readings")
		row(2, "Power Draw", fmt.Sprintf("%d.00 W", gpu.PowerDraw))
		row(2, "Current Power Limit", fmt.Sprintf("%d.00 W", gpu.PowerLimit))
		section(1, "Clocks")
		row(2, "SM", fmt.Sprintf("%d MHz", gpu.SMClock))
		row(2, "Memory", fmt.Sprintf("%d MHz", gpu.MemoryClock))
		if main.name == "" || gpu.MemoryUsed == 0 {
			row(1, "Processes", "None")
		} else {
			section(1, "Processes")
			row(2, "Process ID", fmt.Sprint(main.id))
			row(3, "Name", main.name)
			row(3, "Used GPU Memory", fmt.Sprintf("%d MiB", gpu.MemoryUsed))
		}
		out.WriteString("\n")
	}
	return out.String()
}
