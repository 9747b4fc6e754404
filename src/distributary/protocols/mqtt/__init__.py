"""MQTT 3.1.1 and MQTT 5."""
