"""Loop trees, nests and programs of operations that need more than the file that specifies them."""
