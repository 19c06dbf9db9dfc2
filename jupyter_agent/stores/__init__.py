"""What is kept of turns: run logs, conversations, records of sessions, spans."""
