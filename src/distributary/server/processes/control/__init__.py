"""Parts of the control process: APIs, permissions, timers, issuers, and the order of starts."""
