"""How sums of products run: tiles of registers, packs, what is asked for ahead."""
