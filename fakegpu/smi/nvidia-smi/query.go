package main

import (
	"fmt"
	"strings"
	"time"
)

// field is one column of --query-gpu: its unit, and its value without it.
type field struct {
	unit  string
	value func(gpu GPU, gpus []GPU, now time.Time) string
}

func text(value func(GPU) string) field {
	return field{"", func(gpu GPU, _ []GPU, _ time.Time) string { return value(gpu) }}
}

func amount(unit string, value func(GPU) int) field {
	return field{unit, func(gpu GPU, _ []GPU, _ time.Time) string { return fmt.Sprint(value(gpu)) }}
}

func constant(value string) field {
	return text(func(GPU) string { return value })
}

var fields = map[string]field{
	"timestamp": {"", func(_ GPU, _ []GPU, now time.Time) string {
		return now.Format("2006/01/02 15:04:05.000")
	}},
	"count":                                 {"", func(_ GPU, gpus []GPU, _ time.Time) string { return fmt.Sprint(len(gpus)) }},
	"index":                                 text(func(g GPU) string { return fmt.Sprint(g.Index) }),
	"name":                                  text(func(g GPU) string { return g.Name }),
	"uuid":                                  text(func(g GPU) string { return g.UUID }),
	"driver_version":                        text(func(g GPU) string { return g.DriverVersion }),
	"compute_cap":                           text(func(g GPU) string { return g.ComputeCapability }),
	"pstate":                                text(func(g GPU) string { return g.state() }),
	"mig.mode.current":                      text(func(g GPU) string { return g.migMode() }),
	"mig.mode.pending":                      text(func(g GPU) string { return g.migMode() }),
	"pci.bus_id":                            constant(busID),
	"serial":                                constant("[N/A]"),
	"vbios_version":                         constant("[N/A]"),
	"fan.speed":                             constant("[N/A]"),
	"ecc.mode.current":                      constant("Disabled"),
	"persistence_mode":                      constant("Disabled"),
	"compute_mode":                          constant("Default"),
	"display_active":                        constant("Disabled"),
	"memory.total":                          amount("MiB", func(g GPU) int { return g.MemoryTotal }),
	"memory.used":                           amount("MiB", func(g GPU) int { return g.MemoryUsed }),
	"memory.free":                           amount("MiB", func(g GPU) int { return g.MemoryTotal - g.MemoryUsed }),
	"memory.reserved":                       amount("MiB", func(GPU) int { return 0 }),
	"temperature.gpu":                       amount("", func(g GPU) int { return g.Temperature }),
	"clocks.sm":                             amount("MHz", func(g GPU) int { return g.SMClock }),
	"clocks.current.sm":                     amount("MHz", func(g GPU) int { return g.SMClock }),
	"clocks.gr":                             amount("MHz", func(g GPU) int { return g.SMClock }),
	"clocks.mem":                            amount("MHz", func(g GPU) int { return g.MemoryClock }),
	"clocks.current.memory":                 amount("MHz", func(g GPU) int { return g.MemoryClock }),
	"utilization.memory":                    amount("%", func(g GPU) int { return 100 * g.MemoryUsed / max(1, g.MemoryTotal) }),
	"utilization.gpu":                       {"%", utilization},
	"power.draw":                            {"W", watts(func(g GPU) int { return g.PowerDraw })},
	"power.draw.instant":                    {"W", watts(func(g GPU) int { return g.PowerDraw })},
	"power.limit":                           {"W", watts(func(g GPU) int { return g.PowerLimit })},
	"enforced.power.limit":                  {"W", watts(func(g GPU) int { return g.PowerLimit })},
	"ecc.errors.uncorrected.volatile.total": constant("[N/A]"),
}

var aliases = map[string]string{
	"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_serial": "serial",
	"clocks.current.graphics": "clocks.gr",
}

func utilization(gpu GPU, _ []GPU, _ time.Time) string {
	if gpu.HasMIG {
		return "[N/A]"
	}
	return fmt.Sprint(gpu.Utilization)
}

func watts(value func(GPU) int) func(GPU, []GPU, time.Time) string {
	return func(gpu GPU, _ []GPU, _ time.Time) string { return fmt.Sprintf("%d.00", value(gpu)) }
}

// format is what --format says: csv, with or without header and units.
type format struct{ noHeader, noUnits bool }

func parseFormat(words string) (format, error) {
	var found format
	for _, word := range strings.Split(words, ",") {
		switch strings.TrimSpace(word) {
		case "csv", "":
		case "noheader":
			found.noHeader = true
		case "nounits":
			found.noUnits = true
		default:
			return found, fmt.Errorf("Format option %q is not recognized", word)
		}
	}
	return found, nil
}

func query(names string, how format, gpus []GPU, now time.Time) (string, error) {
	var wanted []field
	var header []string
	for _, name := range strings.Split(names, ",") {
		name = strings.TrimSpace(name)
		key := name
		if other, ok := aliases[name]; ok {
			key = other
		}
		one, ok := fields[key]
		if !ok {
			return "", fmt.Errorf("Field \"%s\" is not a valid field to query.", name)
		}
		if one.unit != "" {
			name += " [" + one.unit + "]"
		}
		wanted, header = append(wanted, one), append(header, name)
	}
	var lines []string
	if !how.noHeader {
		lines = append(lines, strings.Join(header, ", "))
	}
	for _, gpu := range gpus {
		var row []string
		for _, one := range wanted {
			value := one.value(gpu, gpus, now)
			if one.unit != "" && !how.noUnits && !strings.HasPrefix(value, "[") {
				value += " " + one.unit
			}
			row = append(row, value)
		}
		lines = append(lines, strings.Join(row, ", "))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// queryApps answers --query-compute-apps: the container's first process, on each of its GPUs.
func queryApps(names string, how format, gpus []GPU) (string, error) {
	main := mainProcess()
	lines := []string{}
	if !how.noHeader {
		header := strings.ReplaceAll(names, ",", ", ")
		header = strings.ReplaceAll(header, "used_memory", "used_gpu_memory [MiB]")
		lines = append(lines, header)
	}
	for _, gpu := range gpus {
		if main.name == "" || gpu.MemoryUsed == 0 {
			continue
		}
		var row []string
		for _, name := range strings.Split(names, ",") {
			switch strings.TrimSpace(name) {
			case "pid":
				row = append(row, fmt.Sprint(main.id))
			case "process_name", "name":
				row = append(row, main.name)
			case "gpu_uuid":
				row = append(row, gpu.UUID)
			case "gpu_name":
				row = append(row, gpu.Name)
			case "used_memory", "used_gpu_memory":
				value := fmt.Sprint(gpu.MemoryUsed)
				if !how.noUnits {
					value += " MiB"
				}
				row = append(row, value)
			default:
				return "", fmt.Errorf("Field \"%s\" is not a valid field to query.", name)
			}
		}
		lines = append(lines, strings.Join(row, ", "))
	}
	return strings.Join(lines, "\n") + "\n", nil
}
