"""OpenVINO's files as text: found and checked, not yet judged."""
