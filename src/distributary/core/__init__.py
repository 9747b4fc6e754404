"""The data plane: from the bytes received to the recorded outcome of every match."""
