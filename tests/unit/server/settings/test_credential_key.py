"""The keys of credentials are no setting: they are named nowhere, and never shown."""

import pytest

from distributary.core.errors import SettingsError
from distributary.server import settings

KEY = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I="


def test_the_variable_of_the_keys_is_known_and_not_read():
    """Each process that needs them reads it by itself."""
    found = settings.load({}, {"DISTRIBUTARY_CREDENTIAL_KEY": KEY}, None)
    assert KEY not in repr(found)


def test_keys_are_no_flag_and_no_entry_of_the_file():
    """Process lists show flags, and files of settings are shared."""
    assert "credential_key" not in {row.name for row in settings.settings_table()}
    assert KEY not in str(settings.settings_table())
    with pytest.raises(SettingsError, match="credential_key") as caught:
        settings.load({"credential_key": KEY}, {}, f'credential_key = "{KEY}"')
    assert KEY not in str(caught.value)


def test_a_misspelt_variable_of_the_keys_is_told_without_its_value():
    """It is not passed over: credentials would be sealed with another key."""
    with pytest.raises(SettingsError, match="DISTRIBUTARY_CREDENTIAL_KEYS") as caught:
        settings.load({}, {"DISTRIBUTARY_CREDENTIAL_KEYS": KEY}, None)
    assert KEY not in str(caught.value)
