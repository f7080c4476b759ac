"""What headrace costs beside a naive loop, a raw model and a raw echo, each pair measured in one run."""
