package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = "team"

// cluster is a pod's claims with the volumes and capacities that are there for them.
type cluster struct {
	Claims     []claim    `json:"claims"`
	Volumes    []volume   `json:"volumes,omitempty"`
	Capacities []capacity `json:"capacities,omitempty"`
}

// claim waits for its first pod.
type claim struct {
	Name    string `json:"name"`
	Class   string `json:"class"`
	Storage string `json:"storage"`
}

// volume may be used on nodes with the value of the label; without a key on every node.
type volume struct {
	claim
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}

// capacity is what is left for a class in a zone.
type capacity struct {
	Class   string `json:"class"`
	Zone    string `json:"zone"`
	Free    string `json:"free"`
	Largest string `json:"largest,omitempty"`
}

// zones by node.
var zones = map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": "c"}

// provisioners by class; that of local provisions nothing.
var provisioners = map[string]string{
	"fast": "fast.example.com", "slow": "slow.example.com", "plain": "plain.example.com",
	"local": "kubernetes.io/no-provisioner",
}

// publishing are the classes whose provisioners publish the capacity that is left.
var publishing = []string{"fast", "slow"}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.Intn(len(from))] }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"}
}

func sized(text string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

// draw is a random cluster. A class has one capacity per zone: of several, kube-scheduler takes
// any.
func draw(r *rand.Rand) cluster {
	found := cluster{}
	for _, class := range publishing {
		for _, zone := range []string{"a", "b", "c"} {
			if r.Intn(6) > 0 {
				free := pick(r, "0", "1", "1500Mi", "7Gi", "10Gi", "33Gi", "1Ti")
				largest := pick(r, "", "", "", "", "1Gi", "20Gi")
				found.Capacities = append(found.Capacities, capacity{class, zone, free, largest})
			}
		}
	}
	for i := range pick(r, 1, 1, 2, 2, 3) {
		class := pick(r, "fast", "fast", "fast", "slow", "plain", "local")
		storage := pick(r, "0", "1", "1Gi", "1700M", "3Gi", "4321Mi", "9Gi")
		found.Claims = append(found.Claims, claim{fmt.Sprintf("c%d", i+1), class, storage})
	}
	for i := range pick(r, 0, 0, 3, 6, 9) {
		class := pick(r, "fast", "local", "local", "plain")
		storage := pick(r, "0", "1", "1Gi", "2G", "5Gi", "9Gi", "100Gi")
		one := volume{claim: claim{fmt.Sprintf("v%d", i+1), class, storage}}
		one.Key = pick(r, "", v1.LabelHostname, v1.LabelTopologyZone)
		switch one.Key {
		case v1.LabelHostname:
			one.Value = pick(r, "n1", "n2", "n3", "n4")
		case v1.LabelTopologyZone:
			one.Value = pick(r, "a", "b", "c")
		}
		found.Volumes = append(found.Volumes, one)
	}
	return found
}

func nodes() []*v1.Node {
	var found []*v1.Node
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		node := &v1.Node{ObjectMeta: meta(name)}
		node.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: zones[name]}
		found = append(found, node)
	}
	return found
}

func (c capacity) object() *storagev1.CSIStorageCapacity {
	free := resource.MustParse(c.Free)
	one := &storagev1.CSIStorageCapacity{
		ObjectMeta: meta(c.Class + "-" + c.Zone), StorageClassName: c.Class, Capacity: &free,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: c.Zone}},
	}
	one.Namespace = "kube-system"
	if c.Largest != "" {
		largest := resource.MustParse(c.Largest)
		one.MaximumVolumeSize = &largest
	}
	return one
}

func (c claim) object() *v1.PersistentVolumeClaim {
	one := &v1.PersistentVolumeClaim{ObjectMeta: meta(c.Name)}
	one.Namespace = namespace
	one.Spec.StorageClassName = &c.Class
	one.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	one.Spec.Resources.Requests = sized(c.Storage)
	one.Status.Phase = v1.ClaimPending
	return one
}

func (v volume) object() *v1.PersistentVolume {
	one := &v1.PersistentVolume{ObjectMeta: meta(v.Name)}
	one.Spec.StorageClassName = v.Class
	one.Spec.Capacity = sized(v.Storage)
	one.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	one.Spec.HostPath = &v1.HostPathVolumeSource{Path: "/volume"}
	if v.Key != "" {
		on := v1.NodeSelectorRequirement{
			Key: v.Key, Operator: v1.NodeSelectorOpIn, Values: []string{v.Value},
		}
		term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{on}}
		one.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}
	}
	one.Status.Phase = v1.VolumeAvailable
	return one
}

func (c cluster) objects() []runtime.Object {
	var found []runtime.Object
	for class, provisioner := range provisioners {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		found = append(found, &storagev1.StorageClass{
			ObjectMeta: meta(class), Provisioner: provisioner, VolumeBindingMode: &mode,
		})
	}
	for _, class := range publishing {
		publishes := true
		spec := storagev1.CSIDriverSpec{StorageCapacity: &publishes}
		found = append(found, &storagev1.CSIDriver{ObjectMeta: meta(provisioners[class]), Spec: spec})
	}
	for _, one := range c.Claims {
		found = append(found, one.object())
	}
	for _, one := range c.Volumes {
		found = append(found, one.object())
	}
	for _, one := range c.Capacities {
		found = append(found, one.object())
	}
	return found
}

// pod mounts every claim.
func (c cluster) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: meta("p")}
	pod.Namespace = namespace
	for _, one := range c.Claims {
		source := &v1.PersistentVolumeClaimVolumeSource{ClaimName: one.Name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
			Name: one.Name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source},
		})
	}
	return pod
}
