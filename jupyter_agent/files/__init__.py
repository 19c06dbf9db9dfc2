"""Files on disk: paths of a workspace, text files, diffs, trust."""
