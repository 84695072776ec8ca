"""An example autoscaler: it reads pods as cluster-autoscaler and Karpenter do, on KWOK nodes."""
