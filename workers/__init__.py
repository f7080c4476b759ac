"""The GPU side: consume, decode, backlog, batch, run, reply, commit."""
