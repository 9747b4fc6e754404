"""Rules and limits of the object store, which its maker gives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distributary.knative.apiserver.machinery import Kind, Object
from distributary.knative.apiserver.objects._usage import Quota
from distributary.resource import Vault

Admit = Callable[[Kind, Object, Object | None], None]
"""Checks a new content against the old one, if any; raises ``StatusError``."""

Default = Callable[[Kind, Object, Object | None], Object]
"""Returns a new content with defaults. Accepts any JSON object; does not modify its arguments."""


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """Rules and limits for requests.

    Attributes:
        kinds: By ``Kind.resource``.
        admit: Checks contents.
        default: Fills in defaults.
        new_uid: Draws a fresh uid.
        objects_max: Maximum number of objects.
        bytes_max: Maximum size of all objects together.
        quota: Quotas of namespaces.
        vault: Seals the values of Secrets; None: there are none.
    """

    kinds: Mapping[str, Kind]
    admit: Admit
    default: Default
    new_uid: Callable[[], str]
    objects_max: int
    bytes_max: int
    quota: Quota
    vault: Vault | None
