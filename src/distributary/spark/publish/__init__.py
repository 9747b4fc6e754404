"""Publishing from Spark: rows become CloudEvents, which a server takes over HTTP.

Caller: ``spark.format``, whose data source makes the writers. Hides: which columns are attributes,
how a row without an id gets one, and what happens when the server is busy or refuses rows.

Rows go the way of every event: through the HTTP receiver, with its permissions and its limits.
"""

from distributary.spark.publish.writer import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]
