"""The `get_` methods of a primitive descriptor about its memory descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..desc.memory_desc import MemoryDesc
    from .query import Query


class DescGetters:
    """Second names, beginning with `get_`, for the queries of descriptors."""

    __slots__ = ()

    def query_md(self, what: Query | str, index: int = 0) -> MemoryDesc:
        """Return the descriptor for a query."""
        raise NotImplementedError

    def get_src_desc(self, index: int = 0) -> MemoryDesc:
        """`src_desc(index)`."""
        return self.query_md("src", index)

    def get_dst_desc(self, index: int = 0) -> MemoryDesc:
        """`dst_desc(index)`."""
        return self.query_md("dst", index)

    def get_weights_desc(self, index: int = 0) -> MemoryDesc:
        """`weights_desc(index)`."""
        return self.query_md("weights", index)

    def get_diff_src_desc(self, index: int = 0) -> MemoryDesc:
        """`diff_src_desc(index)`."""
        return self.query_md("diff_src", index)

    def get_diff_dst_desc(self, index: int = 0) -> MemoryDesc:
        """`diff_dst_desc(index)`."""
        return self.query_md("diff_dst", index)

    def get_diff_weights_desc(self, index: int = 0) -> MemoryDesc:
        """`diff_weights_desc(index)`."""
        return self.query_md("diff_weights", index)

    def get_workspace_desc(self) -> MemoryDesc:
        """`workspace_desc()`."""
        return self.query_md("workspace")

    def get_scratchpad_desc(self) -> MemoryDesc:
        """`scratchpad_desc()`."""
        return self.query_md("scratchpad")
