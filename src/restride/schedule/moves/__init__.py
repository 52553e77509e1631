"""Schedules for moves: loop nests in tiles, blocks and stages."""
