"""Files that appear as a whole or not at all."""
