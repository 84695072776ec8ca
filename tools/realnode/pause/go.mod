module gpu-scheduler.io/tools/controlplane/realnode/pause

go 1.26.0
