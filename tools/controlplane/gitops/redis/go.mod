module gpu-scheduler.io/tools/controlplane/gitops/redis

go 1.26.0

require github.com/alicebob/miniredis/v2 v2.39.0

require github.com/yuin/gopher-lua v1.1.1 // indirect
