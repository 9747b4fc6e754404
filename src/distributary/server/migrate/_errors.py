"""What goes wrong in a migration."""

from distributary.core.errors import StoreError


class MigrationError(StoreError):
    """A migration cannot begin, go on or end; the message says what to do."""
