"""The agent loop, the approval of tool calls, compaction and prompts."""
