module gpu-scheduler.io/fakegpu/smi

go 1.26.0
