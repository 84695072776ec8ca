"""The image without a container engine: the Dockerfile's root file system as an OCI archive.

    Dockerfile -> dockerfile -> build -> oci archive, and beside it the list of its parts (SBOM)
                                  |
               machine (Python in place of the base image), packages (locked wheels, the product)

Tests run where no engine is and no registry can be asked. The Dockerfile stays the one
description: what an image says of itself is read from it, and a step of it that is not known here
ends the build.
"""
