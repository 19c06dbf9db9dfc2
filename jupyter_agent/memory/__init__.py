"""What is kept across sessions: notes, workspace memory, hot rules, search. Plain files first."""
