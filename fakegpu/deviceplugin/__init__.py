"""The kubelet's device plugin interface for fake devices."""
