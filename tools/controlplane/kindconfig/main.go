// Kindconfig reads kind configurations by kind's own types and says what kind would make of them.
//
// As kind does it: strictly, so that a key that kind does not know is an error, and with its defaults.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func main() {
	for _, path := range os.Args[1:] {
		cluster, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
		if err := json.NewEncoder(os.Stdout).Encode(cluster); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func read(path string) (*v1alpha4.Cluster, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cluster := &v1alpha4.Cluster{}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(cluster); err != nil {
		return nil, err
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || cluster.Kind != "Cluster" {
		return nil, fmt.Errorf("%s %s is not kind's Cluster", cluster.APIVersion, cluster.Kind)
	}
	v1alpha4.SetDefaultsCluster(cluster)
	return cluster, nil
}
