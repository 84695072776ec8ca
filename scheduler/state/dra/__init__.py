"""What the cluster has of devices and claims (``resource.k8s.io``)."""
