"""Operations, one file each: the checked problem, its arguments, its loop tree and its gradient.

A class of problems says all that is special about an operation. `restride.model` derives primitive
descriptors and primitives from it, `restride.graph` the nodes of networks.
"""
