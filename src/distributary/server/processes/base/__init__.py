"""What every process of the server stands on.

Folders, addresses, certificates, log lines, audit lines.
"""
