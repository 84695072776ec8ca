package main

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// match is one claim, the volumes, and the volume that it gets on each node.
type match struct {
	Claim    *v1.PersistentVolumeClaim `json:"claim"`
	Volumes  []*v1.PersistentVolume    `json:"volumes"`
	Chosen   []string                  `json:"chosen"`
	Expected map[string]string         `json:"expected"`
}

const cases = 200

func pick[T any](r *rand.Rand, from ...T) T { return from[r.Intn(len(from))] }

func size(r *rand.Rand) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(pick(r, "1Gi", "2Gi", "1500Mi", "3Gi"))}
}

func modes(r *rand.Rand) []v1.PersistentVolumeAccessMode {
	return pick(r,
		[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		[]v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
		[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany},
	)
}

func mode(r *rand.Rand) *v1.PersistentVolumeMode {
	block, files := v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem
	return pick(r, nil, nil, nil, &files, &files, &files, &block)
}

func attributes(r *rand.Rand) *string {
	gold, none := "gold", ""
	return pick(r, nil, nil, nil, nil, nil, nil, &none, &gold)
}

func node(name string) *v1.Node {
	zone := map[string]string{"n1": "a", "n2": "a", "n3": "b"}[name]
	labels := map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: zone}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func affinity(r *rand.Rand) *v1.VolumeNodeAffinity {
	on := func(key string, values ...string) *v1.VolumeNodeAffinity {
		one := v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
		term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one}}
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
	}
	return pick(r, nil, on(v1.LabelHostname, "n1"), on(v1.LabelHostname, "n2", "n3"), on(v1.LabelHostname, "n3"),
		on(v1.LabelTopologyZone, "a"), on(v1.LabelTopologyZone, "b"))
}

func reference(r *rand.Rand) *v1.ObjectReference {
	to := func(name, uid string) *v1.ObjectReference {
		return &v1.ObjectReference{Namespace: "team", Name: name, UID: types.UID(uid)}
	}
	return pick(r, nil, nil, nil, nil, nil, to("data", ""), to("data", "uid-data"), to("data", "former"), to("other", ""))
}

func matches() []any {
	r := rand.New(rand.NewSource(37))
	var rows []any
	for range cases {
		class := "local"
		claim := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "data", UID: "uid-data"},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: modes(r), StorageClassName: &class, VolumeMode: mode(r), VolumeAttributesClassName: attributes(r),
				Resources: v1.VolumeResourceRequirements{Requests: size(r)},
			},
		}
		if r.Intn(5) == 0 {
			claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "a"}}
		}
		var volumes, ofClass []*v1.PersistentVolume
		for n := range r.Intn(8) {
			one := &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%d", n), Labels: map[string]string{"tier": pick(r, "a", "a", "b")}},
				Spec: v1.PersistentVolumeSpec{
					AccessModes: modes(r), Capacity: size(r), ClaimRef: reference(r), NodeAffinity: affinity(r),
					StorageClassName: pick(r, "local", "local", "local", "other"), VolumeMode: mode(r), VolumeAttributesClassName: attributes(r),
				},
				Status: v1.PersistentVolumeStatus{Phase: pick(r, v1.VolumeAvailable, v1.VolumeAvailable, v1.VolumeAvailable, v1.VolumeAvailable, v1.VolumePending, v1.VolumeReleased)},
			}
			if r.Intn(8) == 0 {
				now := metav1.Unix(1, 0)
				one.DeletionTimestamp = &now
			}
			volumes = append(volumes, one)
			if one.Spec.StorageClassName == class {
				ofClass = append(ofClass, one)
			}
		}
		row := match{Claim: claim, Volumes: volumes, Chosen: []string{}, Expected: map[string]string{}}
		chosen := map[string]*v1.PersistentVolume{}
		if len(ofClass) > 0 && r.Intn(3) == 0 {
			one := pick(r, ofClass...)
			chosen[one.Name] = one
			row.Chosen = append(row.Chosen, one.Name)
		}
		for _, name := range []string{"n1", "n2", "n3"} {
			found, err := volume.FindMatchingVolume(claim, ofClass, node(name), chosen, true, true)
			if err != nil {
				panic(err)
			}
			if found != nil {
				row.Expected[name] = found.Name
			}
		}
		rows = append(rows, row)
	}
	return rows
}
