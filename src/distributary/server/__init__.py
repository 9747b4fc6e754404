"""The server: its front door, its processes, its settings; the parts are wired here."""
