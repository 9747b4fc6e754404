"""distributary: a CloudEvents subscription manager and event router on Apache Spark.

The parts follow the flow: ``server.ingest`` -> ``core.log`` -> ``core.route`` -> ``core.deliver``
-> ``core.outcome``. Read ``core/flow.py`` first: the records that pass between them are all of the
system.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
