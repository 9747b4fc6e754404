"""One module for each protocol that events are read by; each makes consumers of ``SourceSpec``."""
