"""Which executor is moved where all of them lie on one worker."""

from distributary.spark._spread import AGAIN_S, FIRST_S, TRIES_MAX, Spread, worker_of

TOGETHER = {"0": "m1:8081", "1": "m1:8081"}
APART = {"0": "m1:8081", "2": "m2:8081"}


def moves(spread, seconds, workers=TOGETHER, owners=("0",)):
    """When an executor is moved within so many seconds, and which."""
    found = ((s, spread.look(workers, owners, 1_000.0 + s)) for s in range(seconds))
    return [(s, executor) for s, executor in found if executor is not None]


def test_executors_on_several_workers_stay():
    """Also where one worker has more of them than another."""
    assert moves(Spread(), 10_000, {**APART, "3": "m2:8081"}) == []


def test_one_executor_alone_stays():
    """It has nothing to be apart from."""
    assert moves(Spread(), 10_000, {"0": "m1:8081"}) == []


def test_workers_that_are_not_known_are_not_guessed():
    """YARN and Kubernetes place by rules of their own."""
    assert moves(Spread(), 10_000, {"0": "", "1": ""}) == []


def test_the_one_with_fewest_owners_is_moved():
    """A spare one, if there is any; the newest of several."""
    first = int(FIRST_S)
    assert moves(Spread(), first + 1) == [(first, "1")]
    assert moves(Spread(), first + 1, owners=["1", "1", "0"]) == [(first, "0")]
    assert moves(Spread(), first + 1, {**TOGETHER, "10": "m1:8081"}, ["0"]) == [(first, "10")]


def test_a_single_worker_is_tried_a_few_times():
    """Each after twice the time of the one before."""
    first = int(FIRST_S)
    at = [first * (2**tries - 1) for tries in range(1, TRIES_MAX + 1)]
    assert [s for s, _ in moves(Spread(), 40_000)] == at


def test_a_worker_that_was_there_may_come_back():
    """So it is looked for as long as the driver runs."""
    spread = Spread()
    assert moves(spread, 10, APART) == []
    at = [s for s, _ in moves(spread, 20_000)]
    assert at[TRIES_MAX:] != []
    assert at[-1] - at[-2] == AGAIN_S


def test_who_has_come_apart_is_moved_soon_when_it_happens_again():
    """The pauses begin anew."""
    spread = Spread()
    first = int(FIRST_S)
    assert moves(spread, first + 1)
    assert moves(spread, first, APART) == []
    assert moves(spread, first + 1) == [(first, "1")]


class Scala:
    """A value of Scala, as Py4J shows it."""

    def __init__(self, url):
        self._url = url

    def executorLogs(self):  # noqa: N802 - Spark's name
        return {"stdout": self}

    def isDefined(self):  # noqa: N802 - Scala's name
        return self._url is not None

    def get(self):
        return self._url


def test_the_worker_is_that_which_shows_the_output():
    """By the address of its pages; those of others are none of a worker."""
    url = "http://10.0.0.7:8081/logPage/?appId=app-1&executorId=0&logType=stdout"
    assert worker_of(Scala(url)) == "10.0.0.7:8081"
    assert worker_of(Scala("http://yarn:8042/node/containerlogs/c_1/me/stdout")) == ""
    assert worker_of(Scala(None)) == ""
