"""ResourceClaims and the devices that they get (kube-scheduler: dynamicresources)."""
