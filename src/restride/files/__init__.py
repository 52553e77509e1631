"""Tensors in files: what a file holds, read and written whole, and converted in bounded memory."""
