import pytest

from distributary.cli import _behaviour
from distributary.cli._behaviour import Behaviour, StatusChance


@pytest.mark.parametrize(
    ("draw", "status"), [(0.0, 503), (0.29, 503), (0.31, 429), (0.39, 429), (0.41, 200)]
)
def test_statuses_share_the_probability_and_the_rest_succeeds(draw: float, status: int) -> None:
    """0.3 of one, 0.1 of another, 0.6 good."""
    behaviour = Behaviour(statuses=(StatusChance(503, 0.3), StatusChance(429, 0.1)))
    assert _behaviour.choose_status(behaviour, 1, draw) == status


def test_a_status_without_probability_is_certain() -> None:
    """``503`` alone means always."""
    assert _behaviour.parse_status("503") == StatusChance(503, 1.0)
    assert _behaviour.parse_status("503:0.25") == StatusChance(503, 0.25)


@pytest.mark.parametrize("text", ["", "x", "99", "600", "503:0", "503:1.1", "503:nan", ":1"])
def test_a_status_that_cannot_be_is_refused(text: str) -> None:
    """The message shows the form that is expected."""
    with pytest.raises(ValueError, match=r"503:0\.3"):
        _behaviour.parse_status(text)
