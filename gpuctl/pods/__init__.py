"""Pods as gpuctl shows them: their objects, their explanations, and the names of TYPE/NAME."""
