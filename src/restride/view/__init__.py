"""Layouts for people: a picture in text, and the offset formula in words and symbols."""
