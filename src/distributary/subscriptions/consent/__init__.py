"""Asks HTTP targets for their consent before the first delivery (http-webhook 1.0, section 4)."""

from distributary.subscriptions.consent._agreements import Agreements, AwaitedConsent
from distributary.subscriptions.consent._answer import (
    ALLOWED_RATE,
    Allowed,
    Withheld,
    read_answer,
    read_rate,
)
from distributary.subscriptions.consent._asker import HttpAsker, OptionsReply, Question
from distributary.subscriptions.consent._keeper import CALLBACK_PATH, ConsentKeeper
from distributary.subscriptions.consent._steps import CALLBACK_CONSENT_MS, renewal_ms
from distributary.subscriptions.consent._targets import targets_of
