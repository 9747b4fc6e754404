"""How subscriptions and Triggers stand: their numbers, and the transitions of their deliveries.

The control process follows the tallies that partition consumers write. ``Standings`` has the
numbers of each route over all partitions, and its rate. ``Watcher`` looks at them once a second and
yields *transitions*: deliveries of a route have begun to fail, have recovered, or the route was
paused, resumed, disabled or enabled. Whoever wants to know of transitions calls ``Watcher.listen``
before the watcher starts. Listeners are called in the watcher's thread with all transitions of one
look, after their log lines. They must not raise, and hand over what takes time.

Each transition is told once while the process lives. Nothing is remembered between two
processes: what fails, or is paused or disabled, at the first look is told with ``begun`` False.
A listener that has told it before leaves it out by its ``since_ms``, which a restart does not
change. A failing that begins and ends between two looks is not told. The watcher disables what
has failed for longer than the operator allows, and tells of that as of every other disabling.
"""

from distributary.subscriptions.status._past import Point, Totals
from distributary.subscriptions.status._standings import NOTHING, Standing, Standings, fails
from distributary.subscriptions.status._watcher import (
    LOOK_S,
    ServerNumbers,
    Transition,
    TransitionKind,
    Watcher,
)
