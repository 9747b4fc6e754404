"""What becomes of an event, from the bytes that came in to the outcome written down."""
