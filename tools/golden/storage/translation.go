package main

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitrans "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// translation is one volume with an in-tree source, and what the library makes of it.
type translation struct {
	Volume *v1.PersistentVolume `json:"volume"`
	// Plugin is empty where no plugin knows the source.
	Plugin       string                 `json:"plugin"`
	Driver       string                 `json:"driver"`
	Handle       string                 `json:"handle"`
	Terms        *[]v1.NodeSelectorTerm `json:"terms"`
	Failed       bool                   `json:"failed"`
	Inline       *v1.Volume             `json:"inline,omitempty"`
	InlineHandle string                 `json:"inlineHandle"`
}

func sources() []v1.PersistentVolumeSource {
	dedicated, managed, upper := v1.AzureDedicatedBlobDisk, v1.AzureManagedDisk, v1.AzureDataDiskKind("MANAGED")
	var found []v1.PersistentVolumeSource
	for _, id := range []string{"vol-1", "aws://us-east-1a/vol-2", "aws:///vol-3", "aws://us-east-1a/disk", "gce://z/vol-4", ""} {
		found = append(found, v1.PersistentVolumeSource{
			AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id},
		})
	}
	for _, name := range []string{"disk-1", "disk-2"} {
		found = append(found, v1.PersistentVolumeSource{
			GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name},
		})
	}
	for _, kind := range []*v1.AzureDataDiskKind{nil, &dedicated, &managed, &upper} {
		found = append(found, v1.PersistentVolumeSource{
			AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/subscriptions/x/d", Kind: kind},
		})
	}
	return append(found,
		v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "c"}},
		v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "p"}},
		v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}},
	)
}

// inline is the same source in a pod, where pods may have it.
func inline(source v1.PersistentVolumeSource) *v1.Volume {
	volume := v1.Volume{Name: "v"}
	switch {
	case source.AWSElasticBlockStore != nil:
		volume.AWSElasticBlockStore = source.AWSElasticBlockStore
	case source.GCEPersistentDisk != nil:
		volume.GCEPersistentDisk = source.GCEPersistentDisk
	case source.AzureDisk != nil:
		volume.AzureDisk = source.AzureDisk
	case source.Cinder != nil:
		volume.Cinder = &v1.CinderVolumeSource{VolumeID: source.Cinder.VolumeID}
	case source.PortworxVolume != nil:
		volume.PortworxVolume = source.PortworxVolume
	default:
		return nil
	}
	return &volume
}

func affinities() []*v1.VolumeNodeAffinity {
	in := func(key string, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
	}
	required := func(terms ...v1.NodeSelectorTerm) *v1.VolumeNodeAffinity {
		return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
	}
	all := func(r ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: r}
	}
	exists := v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpExists}
	return []*v1.VolumeNodeAffinity{
		nil,
		{},
		required(all(in(v1.LabelTopologyZone, "us-east-1a"))),
		required(all(in(v1.LabelTopologyZone, "us-east-1a"), in(v1.LabelTopologyRegion, "us-east-1"))),
		required(all(in(v1.LabelFailureDomainBetaZone, "us-east-1b"), in(v1.LabelFailureDomainBetaRegion, "us-east-1"))),
		required(all(in(v1.LabelTopologyZone, "us-east-1a")), all(in("disk", "ssd"))),
		required(all(in("disk", "ssd"))),
		required(all(exists)),
	}
}

func labels() []map[string]string {
	return []map[string]string{
		nil,
		{v1.LabelTopologyZone: "us-east-1c"},
		{v1.LabelTopologyZone: "us-east-1c__us-east-1d"},
		{v1.LabelFailureDomainBetaZone: "us-east-1e", v1.LabelFailureDomainBetaRegion: "us-east-1"},
		{v1.LabelTopologyZone: "us-east-1c__eu-west-1a"},
		{v1.LabelTopologyZone: ""},
		{v1.LabelTopologyZone: "one__two"},
	}
}

func translations() []any {
	translator, logger := csitrans.New(), klog.Background()
	var rows []any
	seen := map[string]bool{}
	for _, source := range sources() {
		plugin, _ := translator.GetInTreePluginNameFromSpec(
			&v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}}, nil)
		for i, affinity := range affinities() {
			for j, label := range labels() {
				// Every topology with one source of each plugin; the other sources without any.
				if seen[plugin] && i+j > 0 {
					continue
				}
				volume := &v1.PersistentVolume{
					ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: label},
					Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source, NodeAffinity: affinity},
				}
				row := translation{Volume: volume}
				if translator.IsPVMigratable(volume) {
					row.Plugin, _ = translator.GetInTreePluginNameFromSpec(volume, nil)
					row.Driver, _ = translator.GetCSINameFromInTreeName(row.Plugin)
					found, err := translator.TranslateInTreePVToCSI(logger, volume)
					row.Failed = err != nil
					if err == nil {
						row.Handle = found.Spec.CSI.VolumeHandle
						if found.Spec.NodeAffinity != nil && found.Spec.NodeAffinity.Required != nil {
							row.Terms = &found.Spec.NodeAffinity.Required.NodeSelectorTerms
						}
					}
				}
				if row.Inline = inline(source); row.Inline != nil {
					found, err := translator.TranslateInTreeInlineVolumeToCSI(logger, row.Inline, "team")
					if err == nil {
						row.InlineHandle = found.Spec.CSI.VolumeHandle
					}
				}
				rows = append(rows, row)
			}
		}
		seen[plugin] = true
	}
	return rows
}
