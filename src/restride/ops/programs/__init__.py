"""The loop trees, nests and programs of operations that take more than the file which specifies them."""
