"""Sources: events that others publish at a broker, brought into the log.

Called by ``app`` (one process runs all of them). Hides who reads what, the hand-over to the
receiver, and when a broker is told that a message is done with: after the log has it.
"""

from distributary.source._port import Consumer, Message, Settlement, SourceSpec

__all__ = ["Consumer", "Message", "Settlement", "SourceSpec"]
