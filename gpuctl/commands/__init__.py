"""The commands of ``gpuctl``, one module each; ``gpuctl.__main__`` imports a module on demand."""
