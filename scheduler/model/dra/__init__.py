"""Dynamic Resource Allocation: devices, classes and claims of ``resource.k8s.io/v1``."""
