"""An archive's files: ranges of the log as rows, the manifests that name them, and its table."""
