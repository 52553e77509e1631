"""Displaying layouts: pictures in text, SVG and HTML, and the offset formula in words and symbols."""
