"""Sources in a process of their own: their tables, and leases that spread them over nodes."""
