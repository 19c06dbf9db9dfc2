"""Values without input or output: messages, events, tools, the transcript, redaction."""
