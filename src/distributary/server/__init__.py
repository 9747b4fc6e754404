"""The server: HTTP receiver, processes and settings; wires the other packages together."""
