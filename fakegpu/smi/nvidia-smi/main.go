// Command nvidia-smi shows the fake GPUs of the container or machine that it is started in, as
// NVIDIA's program shows real ones. It is one static file, so that it runs in any image.
package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// lostStatus is what NVIDIA's program returns when a GPU does not answer any more.
const (
	usageStatus = 2
	lostStatus  = 15
)

const usage = `nvidia-smi [OPTION...]: shows this container's (fake) GPUs

    -L, --list-gpus             one line for each GPU and MIG device
    -q, --query                 everything, line by line
    -i, --id=ID                 only this GPU: an index or a UUID
    -l, --loop=SECONDS          again and again
        --query-gpu=FIELD,...   a table; see --help-query-gpu
        --query-compute-apps=FIELD,...
        --format=csv[,noheader][,nounits]
    -h, --help    --version    -debug
`

type options struct {
	list, full, help, helpQuery, version, debug bool
	id, query, apps, format                     string
	loop                                        int
}

func main() {
	chosen, err := parse(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(usageStatus)
	}
	for {
		status := run(chosen)
		if chosen.loop <= 0 || status != 0 {
			os.Exit(status)
		}
		time.Sleep(time.Duration(chosen.loop) * time.Second)
	}
}

// parse takes both spellings of values: --id 0 and --id=0.
func parse(words []string) (options, error) {
	var chosen options
	for number := 0; number < len(words); number++ {
		name, value, given := strings.Cut(words[number], "=")
		next := func() string {
			if !given && number+1 < len(words) {
				number++
				value = words[number]
			}
			return value
		}
		switch name {
		case "-L", "--list-gpus":
			chosen.list = true
		case "-q", "--query":
			chosen.full = true
		case "-h", "--help":
			chosen.help = true
		case "--help-query-gpu":
			chosen.helpQuery = true
		case "--version":
			chosen.version = true
		case "-debug", "--debug":
			chosen.debug = true
		case "-i", "--id":
			chosen.id = next()
		case "--query-gpu":
			chosen.query = next()
		case "--query-compute-apps":
			chosen.apps = next()
		case "--format":
			chosen.format = next()
		case "-l", "--loop":
			seconds, err := strconv.Atoi(next())
			if err != nil || seconds < 1 {
				return chosen, fmt.Errorf("Invalid combination of input arguments: %s wants seconds", name)
			}
			chosen.loop = seconds
		default:
			return chosen, fmt.Errorf(
				"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"+
					"%s is not known", words[number])
		}
	}
	return chosen, nil
}

func run(chosen options) int {
	if chosen.help {
		fmt.Print(usage)
		return 0
	}
	if chosen.helpQuery {
		fmt.Print(fieldNames())
		return 0
	}
	gpus, err := find()
	if err == nil {
		gpus, err = only(gpus, chosen.id)
	}
	if err != nil {
		return tell(err)
	}
	lost := 0
	for _, gpu := range gpus {
		if gpu.IsLost {
			fmt.Printf("Unable to determine the device handle for GPU%d: %s: Unknown Error\n", gpu.Index, busID)
			lost++
		}
	}
	if lost > 0 {
		fmt.Fprintln(os.Stderr, "a GPU has fallen off the bus (XID 79)")
		return lostStatus
	}
	shown, err := answer(chosen, gpus)
	if err != nil {
		fmt.Println(err)
		return usageStatus
	}
	fmt.Print(shown)
	return 0
}

func tell(err error) int {
	var known *failure
	if !errors.As(err, &known) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(known.text)
	if known.cause != nil {
		fmt.Fprintln(os.Stderr, known.cause)
	}
	return known.status
}

func only(gpus []GPU, id string) ([]GPU, error) {
	if id == "" {
		return gpus, nil
	}
	var found []GPU
	for _, one := range strings.Split(id, ",") {
		for _, gpu := range gpus {
			if one == strconv.Itoa(gpu.Index) || one == gpu.UUID || one == busID {
				found = append(found, gpu)
			}
		}
	}
	if len(found) == 0 {
		return nil, errNoDevices
	}
	return found, nil
}

func answer(chosen options, gpus []GPU) (string, error) {
	now := time.Now()
	how, err := parseFormat(chosen.format)
	switch {
	case err != nil:
		return "", err
	case chosen.version:
		return fmt.Sprintf("NVIDIA-SMI version  : %s\nDRIVER version      : %s\nCUDA Version        : %s\n",
			gpus[0].DriverVersion, gpus[0].DriverVersion, gpus[0].CudaVersion), nil
	case chosen.query != "":
		return query(chosen.query, how, gpus, now)
	case chosen.apps != "":
		return queryApps(chosen.apps, how, gpus)
	case chosen.list:
		return list(gpus), nil
	case chosen.full:
		return full(gpus, now), nil
	}
	return table(gpus, now), nil
}

func fieldNames() string {
	var names []string
	for name := range fields {
		names = append(names, "\""+name+"\"")
	}
	sort.Strings(names)
	return strings.Join(names, "\n") + "\n"
}
