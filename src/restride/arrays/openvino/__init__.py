"""OpenVINO files as text: parsed, but not interpreted."""
