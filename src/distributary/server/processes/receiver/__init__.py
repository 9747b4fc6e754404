"""Parts of a receiver: where it appends, what it passes on to others, and retention."""
