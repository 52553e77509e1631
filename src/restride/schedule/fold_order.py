"""Parameters that determine the order of sums, and so their last bits: the same numbers on every machine.

Floats are added in one order, which depends only on shapes and formats (docs/numerics.md): so nothing here
is detected, measured, or taken from `machine.py`, and a port changes none of it. Changing a number changes
bits. The numbers were chosen for speed on machines with 32 KB and 1 MB of cache per core.
"""

from __future__ import annotations

# --- lanes of vectors (`trees/schedule.py`) -----------------------------------------------------------------
# A fold along a vector has a sum for each lane; these are added at its end.

# Lanes of a vector: several registers, so that operations overlap. Fewer if each value takes many operations,
# under masks, and if each lane has a row of its own, so that these stay in cache.
LANES, COSTLY_LANES, MASKED_LANES = 64, 32, 16
# Total bytes of the lanes' rows up to which there are more than `MASKED_LANES`.
ROW_BYTES = 1 << 15
# The direction of vectors is weighed in loads of single elements: to fold the lanes of one vector; elements
# under masks known only at run time; elements whose offset is computed.
FOLD_COST, MASK_COST, COMPUTED_COST = 6.0, 1.5, 4.0

# --- pieces that threads share (`trees/split_folds.py`) -----------------------------------------------------

# A loop with fewer outputs than this is split, if a piece then has at least this much to fold.
FEW_OUTPUTS, SPLIT_PIECE = 1024, 1 << 14
# The most pieces; and how many are enough to prefer cutting the axis that moves farthest in memory.
MOST_SPLIT_PIECES, ENOUGH_SPLIT_PIECES = 64, 16
# One position of an axis is a piece if it has this many elements, and the axis does not have too many
# positions. Pieces of one position are contiguous in memory: with several, gradients of PReLU in nchw took
# 1.2 to 1.4 times as long.
LONE_PIECE, MOST_LONE_PIECES = 1 << 11, 1 << 10

# --- folds down columns, by blocks of rows (`trees/columns.py`) ---------------------------------------------

# The fewest bytes of a tensor, and between rows, for one fold and for many: below, columns are as fast.
LEAST_COLUMN_BYTES, LEAST_COLUMN_STEP, LEAST_COLUMN_STEP_OF_MANY = 1 << 22, 1 << 9, 1 << 11
# The most and fewest rows of a block; columns of a chunk likewise.
MOST_BLOCK_ROWS, LEAST_BLOCK_ROWS = 8, 4
MOST_CHUNK_COLUMNS, LEAST_CHUNK_COLUMNS = 1 << 12, 1 << 7
# The most bytes of a piece's parts, as they are on a thread's stack, and the fewest of its blocks.
MOST_PART_BYTES, LEAST_PIECE_BLOCKS = 1 << 17, 4
# The fewest pieces of all columns together, if there are enough rows.
COLUMN_PIECES = 64

# --- windows, by rows (`trees/windows.py`) ------------------------------------------------------------------

# The most elements of a row that is folded before the windows along it: it stays in the L1 cache, even in
# f64.
MOST_WINDOW_ROW = 1 << 11

# --- pieces of normalizations (`ops/programs/normalization.py`) ---------------------------------------------

# The most elements of one channel in a piece: with 64 channels, they stay in a core's L2 cache.
CHANNEL_PIECE = 1 << 10
# The most elements of a piece of a long column; and the fewest, also the fewest pieces.
LONG_COLUMN_PIECE, LEAST_LONG_COLUMN_PIECE = 1 << 8, 8
# The most elements of all rows of a piece: source and gradient stay in a core's L2 cache. With fewer rows,
# the sums of pieces would be as large as the rows.
ROWS_PIECE, FEWEST_ROWS = 1 << 15, 16

# --- formats in which products are summed (`ops/programs/contraction_program.py`, `rnn.py`) -----------------
# Blocks of formats split sums: so whether a tensor is moved into them is decided here too.

# An element is moved into another format if it is used in this many products; likewise if the kernel is fast
# except for the caches.
LEAST_USES, LEAST_USES_OF_CROWDED = 16, 64
# Weights of at least this many elements and columns are moved some columns at a time. With weights that are
# transposed, or come from memory, 4 rows took 1.1 to 2.5 times as long, 16 and more 2 to 3 times; with small
# ones whose rows share cache sets, 8 rows did. Others are as fast in place: moved, 4 rows by 1200 x 1200
# weights took 7 times as long, and by one column 20 times. Floats of 16 and 8 bits become f32 from the usual
# number of rows on.
LARGE_WEIGHTS, LARGEST_WEIGHTS, LEAST_COLUMNS = 1 << 17, 1 << 21, 64
ROWS_OF_LARGE, ROWS_OF_CROWDED, CROWDED_STEP = 4, 8, 1 << 10
# Up to this many rows read weights that have long rows and exceed a core's caches row by row, while column
# sums accumulate: one row takes 0.25 to 0.4 of the time, six 0.9.
MOST_BY_ROWS = 7
# From this many rows on, at least this many narrow float weights become f32 before the product, once each.
# 16 rows by 2048 x 2048 weights take 0.5 (f8) to 1.1 (nf4) of the time, 128 rows 0.2 to 0.8; by 64 x 64 they
# take 1.3 to 2.6 times as long. Integers, which take two or three instructions in registers, gain nothing.
ROWS_OF_DECODED, LEAST_DECODED = 16, 1 << 14
# The rows of all steps of a recurrent network that justify moving its weights; and the steps, for weights
# that each step reads again.
LEAST_RNN_ROWS, LEAST_RNN_STEPS = 64, 4

# --- Winograd's algorithm (`ops/programs/winograd.py`) ------------------------------------------------------

# Products that take as long as reading a weight from memory; as transforming an element of a tile that is
# read, and one of a tile that is written. The speedup required over the direct algorithm.
WEIGHT_READ, TILE_READ, TILE_WRITTEN = 16, 30, 20
LEAST_GAIN = 1.15
