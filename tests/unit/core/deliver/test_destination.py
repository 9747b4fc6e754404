"""What a destination is."""

from distributary.core.deliver import Destination
from distributary.core.policy import DeliveryPolicy
from distributary.protocols.http.settings import HttpSettings


def test_equal_settings_are_one_destination():
    """Equal by value, with the same hash."""
    one = Destination("http://a.example/", settings=HttpSettings(headers=(("x", "1"),)))
    two = Destination("http://a.example/", settings=HttpSettings(headers=(("x", "1"),)))
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two}) == 1


def test_any_setting_makes_another_destination():
    """Each field counts."""
    base = {"uri": "http://a.example/"}
    others = [
        {"uri": "http://b.example/"},
        {"protocol": "KAFKA"},
        {"settings": HttpSettings(method="PUT")},
        {"settings": HttpSettings(headers=(("x", "1"),))},
        {"format": "structured"},
        {"policy": DeliveryPolicy(retry=3)},
    ]
    assert len({Destination(**base), *(Destination(**{**base, **one}) for one in others)}) == 7


def test_shows_no_header_values():
    """Headers may hold credentials."""
    destination = Destination(
        "http://a.example/", settings=HttpSettings(headers=(("authorization", "Bearer s3cret"),))
    )
    assert "s3cret" not in repr(destination)
