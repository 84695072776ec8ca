"""Values: pods, nodes, devices, MIG layouts, reasons."""
