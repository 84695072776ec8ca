"""Dynamic resource allocation: ResourceSlices, ResourceClaims, and the kubelet plugin."""
