"""Stores of turns: run logs, conversations, records of sessions, spans."""
