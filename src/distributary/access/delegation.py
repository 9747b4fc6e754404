"""What one identity may pass on to others: no more than it has itself."""

from collections.abc import Iterable, Iterator

from distributary.access.identity import INCLUDES, Grant, Identity, Permission, Verb


def beyond(giver: Identity, grants: Iterable[Grant]) -> list[Permission]:
    """What *giver* would need besides what it has, to give *grants* to another; empty: nothing.

    It needs ``ADMIN`` in each of their namespaces, and whatever they allow there: who may publish
    to some Brokers alone gives these alone.
    """
    wanted = dict.fromkeys(each for grant in grants for each in _needed(grant))
    return [each for each in wanted if not giver.may(each)]


def oversees(identity: Identity, grants: Iterable[Grant]) -> bool:
    """Whether *identity* administers every namespace in which *grants* allow anything."""
    return all(
        identity.may(Permission(Verb.ADMIN, namespace))
        for grant in grants
        for namespace in grant.namespaces
    )


def _needed(grant: Grant) -> Iterator[Permission]:
    for namespace in grant.namespaces:
        yield Permission(Verb.ADMIN, namespace)
        for verb in sorted({each for given in grant.may for each in INCLUDES[given]}):
            names = grant.names if verb is Verb.PUBLISH else ()
            for name in names or ("",):
                yield Permission(verb, namespace, name)
