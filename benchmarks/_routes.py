"""The routes and events of the matching benchmark, made from a seed."""

import random

from distributary.core import filter as filters
from distributary.core.event import Event
from distributary.core.flow import RouteRecord

SEED = 3
MATCHES = 3
"""Routes that each event matches."""
SHARES = {"exact": 0.70, "prefix": 0.15, "suffix": 0.05, "nested": 0.10}
COVERLESS_MAX = 100
"""So many of the nested ones have no conjunct that an index could go by."""

ENTITIES = ("order", "invoice", "shipment", "customer", "payment", "document", "ticket", "device")
VERBS = ("created", "updated", "deleted", "approved", "failed")
REGIONS = ("eu-west", "eu-east", "us-east", "us-west", "ap-south")


class Kind:
    """One kind of event: what all events of it share; three routes ask for it."""

    def __init__(self, number):
        entity, verb = ENTITIES[number % len(ENTITIES)], VERBS[number % len(VERBS)]
        self.type = f"com.example.t{number}.{entity}.{verb}"
        self.source = f"https://api.example.com/tenants/{number * 7919 % 1_000_003}/{entity}s"
        self.subject = f"/{entity}/batch.k{number}.json"
        self.token = f"t{number}."

    def event(self, rng, serial):
        """One event of this kind."""
        return Event(
            {
                "specversion": "1.0",
                "id": f"{serial:08x}-{rng.getrandbits(32):08x}",
                "source": self.source,
                "type": self.type,
                "subject": f"{rng.randrange(1000)}{self.subject}",
                "time": f"2026-11-21T08:{serial // 60 % 60:02}:{serial % 60:02}Z",
                "datacontenttype": "application/json",
                "region": rng.choice(REGIONS),
                "level": rng.randrange(10),
            },
            b"{}",
        )


def make(count, seed=SEED):
    """*count* routes of the mix, in random order, and the kinds of events they ask for."""
    rng = random.Random(seed)
    hows = [how for how, share in SHARES.items() for _ in range(round(count * share))]
    hows += ["exact"] * (count - len(hows))
    rng.shuffle(hows)
    kinds = [Kind(number) for number in range(max(1, count // MATCHES))]
    records, count_nested = [], 0
    for number, how in enumerate(hows):
        kind = kinds[number // MATCHES] if number // MATCHES < len(kinds) else None
        asked = kind or Kind(10_000_000 + number)  # what is left over asks for what never comes
        if how == "nested":
            make_one = coverless if count_nested < COVERLESS_MAX else nested
            expression = make_one(asked, count_nested)
            count_nested += 1
        else:
            expression = _SIMPLE[how](asked)
        records.append(
            RouteRecord(
                seq=number + 1,
                op="put",
                uid=f"{rng.getrandbits(128):032x}",
                revision=1,
                filters=(expression,),
            )
        )
    return records, kinds


_SIMPLE = {
    "exact": lambda kind: {"exact": {"type": kind.type}},
    "prefix": lambda kind: {"prefix": {"source": kind.source[: kind.source.rindex("/") + 1]}},
    "suffix": lambda kind: {"suffix": {"subject": kind.subject[kind.subject.index(".") :]}},
}


def simple(kind, number):
    """A filter of one comparison."""
    return _SIMPLE[("exact", "prefix", "suffix")[number % 3]](kind)


def nested(kind, number):
    """A filter with a conjunct that an index can go by; half of them CESQL, where it is known."""
    if number % 2 and "sql" in filters.DIALECTS:
        return {"sql": f"type = '{kind.type}' AND level >= 0 AND NOT (region LIKE 'cn-%')"}
    return {
        "all": [
            {"exact": {"type": kind.type}},
            {"any": [{"prefix": {"region": "eu"}}, {"not": {"exact": {"region": "cn"}}}]},
            {"not": {"suffix": {"subject": ".tmp"}}},
        ]
    }


def coverless(kind, number):
    """A filter that says nothing which an index could go by."""
    if number % 2 and "sql" in filters.DIALECTS:
        return {"sql": f"type LIKE '%.{kind.token}%' AND level < 10"}
    if number % 4 == 0:
        return {"not": {"not": {"exact": {"type": kind.type}}}}
    return {
        "not": {
            "any": [
                {"not": {"prefix": {"type": f"com.example.{kind.token}"}}},
                {"exact": {"region": "cn"}},
            ]
        }
    }


def events(kinds, count, seed=SEED):
    """*count* events, of random kinds."""
    rng = random.Random(seed + 1)
    return [rng.choice(kinds).event(rng, serial) for serial in range(count)]
