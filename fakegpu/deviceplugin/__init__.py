"""The kubelet's device plugin interface: fake devices, handed out by it like real ones."""
