"""What decides the order of sums, and with it their last bits: the same numbers on every machine.

Floats are added in one order, which depends on shapes and formats alone (docs/numerics.md): so nothing here
is detected, measured, or taken from `machine.py`, and a port changes none of it. Whoever changes a number
changes bits. The numbers were chosen for speed on machines with 32 KB and 1 MB of cache a core.
"""

from __future__ import annotations

# --- lanes of vectors (`trees/schedule.py`) -----------------------------------------------------------------
# A fold along a vector has a sum for each lane, which are added at its end.

# Lanes of a vector: several registers, so that operations overlap. Fewer where each value takes many
# operations, under masks, and where each lane has a row of its own, so that these stay in the caches.
LANES, COSTLY_LANES, MASKED_LANES = 64, 32, 16
# Bytes of all lanes' rows, up to which there are more than `MASKED_LANES`.
ROW_BYTES = 1 << 15
# Which way vectors go is weighed in loads of single elements: to fold the lanes of one vector; elements under
# masks that are only known as it runs; elements whose offset is computed.
FOLD_COST, MASK_COST, COMPUTED_COST = 6.0, 1.5, 4.0

# --- pieces that threads share (`trees/split_folds.py`) -----------------------------------------------------

# A loop with fewer outputs than this is split, where there is at least so much to fold in a piece.
FEW_OUTPUTS, SPLIT_PIECE = 1024, 1 << 14
# Pieces, at most; and as many as are enough, so that the axis that moves farthest in memory is cut.
MOST_SPLIT_PIECES, ENOUGH_SPLIT_PIECES = 64, 16
# So many elements that one position of an axis has make a piece of it, where it has not too many positions.
# Pieces of one position follow each other in memory: of several, gradients of PReLU in nchw took 1.2 to 1.4
# times as long.
LONE_PIECE, MOST_LONE_PIECES = 1 << 11, 1 << 10

# --- folds down columns, by blocks of rows (`trees/columns.py`) ---------------------------------------------

# Bytes of a tensor, and from a row to the next, of one fold and of many, at least: else columns are as fast.
LEAST_COLUMN_BYTES, LEAST_COLUMN_STEP, LEAST_COLUMN_STEP_OF_MANY = 1 << 22, 1 << 9, 1 << 11
# Rows of a block, at most and at least; columns of a chunk likewise.
MOST_BLOCK_ROWS, LEAST_BLOCK_ROWS = 8, 4
MOST_CHUNK_COLUMNS, LEAST_CHUNK_COLUMNS = 1 << 12, 1 << 7
# Bytes of the parts of a piece, at most, as they lie on the stack of a thread, and its blocks, at least.
MOST_PART_BYTES, LEAST_PIECE_BLOCKS = 1 << 17, 4
# Pieces of all columns together, at least, where there are enough rows.
COLUMN_PIECES = 64

# --- windows, by rows (`trees/windows.py`) ------------------------------------------------------------------

# Elements of a row that is folded before windows along it are, at most: it stays in the first cache, as
# doubles too.
MOST_WINDOW_ROW = 1 << 11

# --- pieces of normalizations (`ops/programs/normalization.py`) ---------------------------------------------

# Elements of one channel that a piece has, at most: with 64 channels they stay in a core's second cache.
CHANNEL_PIECE = 1 << 10
# Elements of a piece of a long column, at most; and at least, of which there are as many pieces at least.
LONG_COLUMN_PIECE, LEAST_LONG_COLUMN_PIECE = 1 << 8, 8
# Elements of all rows of a piece, at most: source and gradient stay in a core's second cache. Of fewer rows
# the sums of pieces would be as much as the rows.
ROWS_PIECE, FEWEST_ROWS = 1 << 15, 16

# --- formats in which products are summed (`ops/programs/contraction_program.py`, `rnn.py`) -----------------
# Blocks of formats cut sums: so whether a tensor is moved into them is decided here too.

# An element is moved into another format where it has a part in so many products; the same where the kernel
# is fast but for the caches.
LEAST_USES, LEAST_USES_OF_CROWDED = 16, 64
# Weights of so many elements and columns and more are moved some columns after the other. By weights that are
# turned, or that come from memory, 4 rows took 1.1 to 2.5 times as long, 16 and more 2 to 3 times; by smaller
# ones, of rows that share sets of the caches, 8 rows did. Others are as fast where they lie: moved, 4 rows by
# 1200 x 1200 weights took 7 times as long, and by one column 20 times. Floats of 16 and 8 bits become f32 for
# as many rows as elsewhere.
LARGE_WEIGHTS, LARGEST_WEIGHTS, LEAST_COLUMNS = 1 << 17, 1 << 21, 64
ROWS_OF_LARGE, ROWS_OF_CROWDED, CROWDED_STEP = 4, 8, 1 << 10
# So many rows by weights that lie in long rows, and are larger than the caches of a core, read these row by
# row as sums of columns are found: one row takes 0.25 to 0.4 of the time, six 0.9.
MOST_BY_ROWS = 7
# For so many rows weights of narrow floats, so many and more, become f32 before the product, each only once.
# 16 rows by 2048 x 2048 weights take 0.5 (f8) to 1.1 (nf4) of the time, 128 rows 0.2 to 0.8; by 64 x 64 they
# take 1.3 to 2.6 times as long. Integers, which take two or three instructions in registers, gain nothing.
ROWS_OF_DECODED, LEAST_DECODED = 16, 1 << 14
# Rows of all steps of a recurrent network that are worth moving its weights for; and steps, for the weights
# that each step reads again.
LEAST_RNN_ROWS, LEAST_RNN_STEPS = 64, 4

# --- Winograd's algorithm (`ops/programs/winograd.py`) ------------------------------------------------------

# Products that take as long as to read a weight from memory; as to transform an element of a tile that is
# read, and one of a tile that is written. How many times faster it is to be than the direct algorithm.
WEIGHT_READ, TILE_READ, TILE_WRITTEN = 16, 30, 20
LEAST_GAIN = 1.15
