"""Who is looked at, or asked, next. Caller: ``_keeper``."""

from distributary.core.turns import AT_ONCE, Turns
from distributary.subscriptions.consent._pace import AskPace


class Line:
    """Targets that wait for a look or for their question. For one thread.

    Namespaces take turns, and so do looks and questions: a look waits for no question that the
    pace holds back. What it costs to find the next one does not grow with those that wait.
    """

    def __init__(self) -> None:
        self._pace = AskPace()
        self._looks = Turns()
        self._questions = Turns()
        self._hosts: dict[str, str] = {}  # where the target of a question that waits is asked
        self._asked_last = False

    def __contains__(self, key: str) -> bool:
        """Whether the target *key* waits."""
        return key in self._looks or key in self._questions

    def look(self, key: str, namespace: str) -> None:
        """Let *key* wait for a look."""
        self._looks.put(key, namespace, "")

    def ask(self, key: str, namespace: str, host: str, now_s: float) -> bool:
        """Whether *key* may be asked at *host* at once, which counts; else it waits for that."""
        if self._questions.is_empty and self._pace.allows(host, now_s):
            self._pace.note(host, now_s)
            return True
        self._hosts[key] = host
        self._questions.put(key, namespace, host)
        return False

    def discard(self, key: str) -> None:
        """Let *key* wait no longer, if it does."""
        self._looks.discard(key)
        self._questions.discard(key)
        self._hosts.pop(key, None)

    def take(self, now_s: float) -> tuple[str, bool] | None:
        """Give the next target a place, which it holds until ``end``.

        Returns:
            The target, and whether it is asked rather than looked at; None: no place is due.
        """
        for asks in (not self._asked_last, self._asked_last):
            key = None
            if not asks:
                key = self._looks.take(lambda _host: AT_ONCE)
            elif self._pace.free_s <= now_s:
                key = self._questions.take(self._pace.free_at_s, now_s)
            if key is not None:
                self._asked_last = asks
                if asks:
                    self._pace.note(self._hosts.pop(key), now_s)
                return key, asks
        return None

    def end(self, key: str, *, asked: bool) -> None:
        """Free the place of *key*, which was *asked* rather than looked at."""
        (self._questions if asked else self._looks).end(key)
