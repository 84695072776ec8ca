"""The image without a container engine: the Dockerfile's root file system as an OCI archive.

    Dockerfile -> dockerfile -> build -> oci archive, and beside it the list of its parts (SBOM)
                                  |
               machine (Python in place of the base image), packages (locked wheels, the product)

It is for tests without an engine and without a registry. The Dockerfile remains the only
description: the image's configuration is read from it, and an unknown step fails the build.
"""
