"""What nodes of a graph compute: frozen values, and the dims that they give."""
