"""What the answers of MQTT5 mean."""

from typing import Final

from distributary.policy.acknowledgements._rule import delivered, retried

RULES: Final = (
    delivered("accepted", "The broker has taken the message"),
    retried("other", "An answer that is not known here"),
)
"""Every answer with what it means; ``other`` stands for the rest."""
