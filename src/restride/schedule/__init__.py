"""How it is done: the model of a machine, and the choices that are made by it."""
