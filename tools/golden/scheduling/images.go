package main

import (
	"context"
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
)

// located is a world with the score of each node.
type located struct {
	world
	Scores map[string]int64 `json:"scores"`
}

const digest = "@sha256:0f1e2d3c"

func imageLocality(ctx context.Context) []any {
	r := rand.New(rand.NewSource(8))
	var rows []any
	for len(rows) < cases {
		if row := locate(ctx, worldOfImages(r)); row.differs() || in(r, 8) {
			rows = append(rows, row)
		}
	}
	return rows
}

// differs is whether the images prefer a node.
func (l located) differs() bool {
	found := map[int64]bool{}
	for _, score := range l.Scores {
		found[score] = true
	}
	return len(found) > 1
}

func locate(ctx context.Context, w world) located {
	made, snapshot := scheduler(ctx, w)
	plugin, err := imagelocality.New(ctx, nil, made)
	check(err)
	row := located{world: w, Scores: map[string]int64{}}
	for _, one := range w.Nodes {
		info, err := snapshot.NodeInfos().Get(one.Name)
		check(err)
		score, status := plugin.(*imagelocality.ImageLocality).Score(ctx, framework.NewCycleState(), w.Pod.pod(), info)
		check(status.AsError())
		row.Scores[one.Name] = score
	}
	return row
}

// wanted is an image as a pod names it: a tag or digest may be missing, a registry may have a port.
func wanted(r *rand.Rand) string {
	return pick(r, "", "registry/", "registry:5000/", "registry:5000/team/") + pick(r, "train", "serve") + pick(r, "", "", ":latest", ":v1", digest)
}

// held are the names that a node lists for one image.
func held(r *rand.Rand) []string {
	name := pick(r, "", "registry/", "registry:5000/", "registry:5000/team/") + pick(r, "train", "serve")
	switch r.Intn(8) {
	case 0:
		return nil
	case 1:
		return []string{name} // no runtime lists an image so, and kube-scheduler finds it for no pod
	case 2:
		return []string{name + digest}
	}
	return []string{name + digest, name + pick(r, ":latest", ":latest", ":v1")}
}

func worldOfImages(r *rand.Rand) world {
	var w world
	for number := range 1 + r.Intn(6) {
		node := object{Name: fmt.Sprintf("n%d", number), Offers: amounts{"cpu": "4"}}
		known := map[string]bool{}
		for range r.Intn(6) {
			// kube-scheduler's cache and its snapshot differ in a name that one node lists twice.
			var names []string
			for _, name := range held(r) {
				if !known[name] {
					known[name] = true
					names = append(names, name)
				}
			}
			size := pick[int64](r, 0, 22<<20, 23<<20, 24<<20, 100<<20, 600<<20, 1000<<20, 5000<<20) + r.Int63n(1<<20)
			node.Images = append(node.Images, v1.ContainerImage{Names: names, SizeBytes: size})
		}
		w.Nodes = append(w.Nodes, node)
	}
	spec := &v1.PodSpec{}
	for number := range 1 + r.Intn(3) {
		spec.Containers = append(spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", number), Image: wanted(r)})
	}
	for number := range r.Intn(2) {
		spec.InitContainers = append(spec.InitContainers, v1.Container{Name: fmt.Sprintf("i%d", number), Image: wanted(r)})
	}
	if in(r, 3) {
		source := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: wanted(r)}}
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "model", VolumeSource: source})
	}
	w.Pod = object{Name: "new", Namespace: "team", PodSpec: spec}
	return w
}
