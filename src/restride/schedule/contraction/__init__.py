"""Schedules for sums of products: register tiles, packs, prefetch."""
