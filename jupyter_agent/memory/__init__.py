"""Memory across sessions, in plain files: notes, workspace memory, hot rules, search."""
