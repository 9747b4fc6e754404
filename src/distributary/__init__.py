"""distributary: a CloudEvents subscription manager and event router on Apache Spark.

The rooms follow the flow: ``ingest`` -> ``log`` -> ``route`` -> ``deliver`` -> ``outcome``.
Read ``flow.py`` first: the records that pass between them are all of the system.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
