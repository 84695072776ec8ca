package main

import (
	"context"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
)

// needs is a pod with the features that its node must declare.
type needs struct {
	Spec     v1.PodSpec `json:"spec"`
	Features []string   `json:"features"`
}

func nodeFeatures(context.Context) []any {
	r := rand.New(rand.NewSource(5))
	restart := v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestartAllContainers}
	other := v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart}
	some := func(name string) v1.Container {
		made := v1.Container{Name: name, Image: "app"}
		if in(r, 3) {
			made.RestartPolicyRules = []v1.ContainerRestartRule{pick(r, restart, other)}
		}
		if in(r, 3) {
			made.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			if in(r, 2) {
				made.VolumeMounts[0].BindMountOptions = []string{"noexec"}
			}
		}
		return made
	}
	yes, no := true, false
	var rows []any
	for range 60 {
		spec := v1.PodSpec{HostNetwork: in(r, 2), HostUsers: pick(r, nil, &yes, &no), Containers: []v1.Container{some("app")}}
		if in(r, 2) {
			spec.InitContainers = []v1.Container{some("init")}
		}
		if in(r, 4) {
			spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(some("debug"))}}
		}
		found, err := ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &spec}, version.MustParseSemantic("1.37.2"))
		check(err)
		named, err := ndf.DefaultFramework.Unmap(found)
		check(err)
		rows = append(rows, needs{Spec: spec, Features: append([]string{}, named...)})
	}
	return rows
}
