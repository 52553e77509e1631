"""How moves run: loop nests in tiles, blocks and stages."""
