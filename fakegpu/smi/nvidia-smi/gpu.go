package main

import "strings"

// GPU is one GPU as its reading says it; MiB, per cent, degrees, watts and MHz.
type GPU struct {
	Index             int        `json:"index"`
	UUID              string     `json:"uuid"`
	Name              string     `json:"name"`
	DriverVersion     string     `json:"driverVersion"`
	CudaVersion       string     `json:"cudaVersion"`
	ComputeCapability string     `json:"computeCapability"`
	MemoryTotal       int        `json:"memoryTotal"`
	MemoryUsed        int        `json:"memoryUsed"`
	Utilization       int        `json:"utilization"`
	Temperature       int        `json:"temperature"`
	PowerDraw         int        `json:"powerDraw"`
	PowerLimit        int        `json:"powerLimit"`
	SMClock           int        `json:"smClock"`
	MemoryClock       int        `json:"memoryClock"`
	Xid               int        `json:"xid"`
	IsLost            bool       `json:"isLost"`
	HasMIG            bool       `json:"hasMig"`
	Instances         []Instance `json:"instances"`
}

// Instance is one MIG instance.
type Instance struct {
	UUID        string `json:"uuid"`
	Number      int    `json:"number"`
	Profile     string `json:"profile"`
	GIID        int    `json:"giId"`
	MemoryTotal int    `json:"memoryTotal"`
	MemoryUsed  int    `json:"memoryUsed"`
	Utilization int    `json:"utilization"`
}

// busID is where every fake GPU sits: the seed's table shows this one for all of them.
const busID = "00000001:00:00.0"

func (gpu GPU) migMode() string {
	switch {
	case gpu.HasMIG:
		return "Enabled"
	case strings.HasPrefix(gpu.ComputeCapability, "8.0"),
		strings.HasPrefix(gpu.ComputeCapability, "9."),
		strings.HasPrefix(gpu.ComputeCapability, "10."):
		return "Disabled"
	}
	return "[N/A]"
}

func (gpu GPU) state() string {
	if gpu.Utilization > 0 {
		return "P0"
	}
	return "P8"
}
