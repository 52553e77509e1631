"""Importers of models from other libraries."""
