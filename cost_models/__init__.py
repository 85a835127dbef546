"""Cost models: hardware records, clusters, logical meshes, seconds of compute and of communication."""
