"""The store of subscriptions (blocking), and the loop that alone changes it."""

from distributary.subscriptions.store._credentials_keys import Keys
from distributary.subscriptions.store._credentials_sealed import Sealer, sealer_beside
from distributary.subscriptions.store._directory import Directory, Listed, ListedRoute, News
