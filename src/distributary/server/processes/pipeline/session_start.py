"""Start parameters of the owners' sessions, from the settings."""

from distributary.datadir import DataDir
from distributary.partitions import SessionSettings
from distributary.resource import Reach
from distributary.server.processes.pipeline.history import marked_by, written_into
from distributary.server.processes.pipeline.issuing import Issuing
from distributary.server.processes.supervision.telemetry import otlp_of
from distributary.server.settings import Settings, read_namespaces


def session_settings(
    settings: Settings,
    paths: DataDir,
    reach: Reach,
    history: str,
    issuing: Issuing,
    *,
    key_file: str,
    partitions: int,
) -> SessionSettings:
    """Returns the settings of every owner's session.

    Args:
        settings: The settings in force.
        paths: Paths of the data directory.
        reach: This server's addresses.
        history: Where the history is, as ``place_of`` returns it.
        issuing: What signs the tokens of deliveries.
        key_file: Path of the keys of credentials; empty: in the data directory.
        partitions: Number of partitions of the log.
    """
    return SessionSettings(
        data_dir=str(paths.root),
        reach=reach,
        log_attempts=settings.log_attempts,
        history=written_into(history, paths, shared=settings.log is not None),
        history_mark=marked_by(history, paths, settings),
        log_level=settings.log_level,
        drain_s=settings.drain_s,
        credential_key_file=key_file,
        issuer_url=issuing.url,
        issuer_key_file=issuing.key_file,
        partitions=partitions,
        lag_bytes_max=settings.lag_bytes_max,
        lag_age_max_s=settings.lag_age_max_s,
        dead_letter_bytes_max=settings.dead_letter_bytes_max,
        dead_letter_route_bytes_max=settings.dead_letter_route_bytes_max,
        dead_letter_age_max_s=settings.dead_letter_age_max_s,
        quotas=read_namespaces(settings.namespaces)[0],
        otlp=otlp_of(settings),
        archive=settings.archive,
        once=settings.once,
    )
