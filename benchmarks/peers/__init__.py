"""What headrace is compared with: one file a peer, each run by an interpreter of its own."""
