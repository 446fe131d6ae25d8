"""Decides which KV blocks a sequence gets: a fixed budget, shared prefixes by hash, eviction least recently used."""

from collections import OrderedDict
from collections.abc import Sequence

BlockHash = bytes


class KvCache:
    """Block accounting of one engine; `used + idle <= total_blocks` holds after every call.

    A block is private while it fills. Once full it is published under the hash of everything up to its end,
    and later sequences with the same beginning share it. A published block that nobody uses stays idle, to be
    found again, until its room is needed.
    """

    def __init__(self, total_blocks: int, block_size: int, prefix_caching: bool = True) -> None:
        self.total_blocks = total_blocks
        self.block_size = block_size
        self._prefix_caching = prefix_caching
        self._users: dict[BlockHash, int] = {}
        self._idle: OrderedDict[BlockHash, None] = OrderedDict()
        self._tables: dict[str, list[BlockHash | None]] = {}
        self._private = 0

    @property
    def used(self) -> int:
        """Blocks that some sequence holds."""
        return len(self._users) + self._private

    @property
    def idle(self) -> int:
        """Published blocks that nobody holds; they count as free."""
        return len(self._idle)

    @property
    def usage(self) -> float:
        """Share of the budget that sequences hold, 0 to 1."""
        return self.used / self.total_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that `tokens` tokens fill, the last one perhaps in part."""
        return -(-tokens // self.block_size)

    def cached_tokens(self, hashes: Sequence[BlockHash], tokens: int) -> int:
        """Leading tokens already in published blocks; the last token is always left to compute."""
        if not self._prefix_caching:
            return 0
        count = 0
        for block_hash in hashes[: max(tokens - 1, 0) // self.block_size]:
            if block_hash not in self._users and block_hash not in self._idle:
                break
            count += 1
        return count * self.block_size

    def admit(self, sequence: str, hashes: Sequence[BlockHash], cached_tokens: int, tokens: int) -> bool:
        """Give a new sequence its cached prefix and room for `tokens` in all; on False nothing has changed."""
        table: list[BlockHash | None] = []
        self._tables[sequence] = table
        for block_hash in hashes[: cached_tokens // self.block_size]:
            self._users[block_hash] = self._users.get(block_hash, 0) + 1
            self._idle.pop(block_hash, None)
            table.append(block_hash)
        if self.extend(sequence, tokens):
            return True
        self.release(sequence)
        return False

    def extend(self, sequence: str, tokens: int) -> bool:
        """Make room for `tokens` tokens in all; on False nothing has changed."""
        table = self._tables[sequence]
        missing = self.blocks_for(tokens) - len(table)
        if missing > self.total_blocks - self.used:
            return False
        for _ in range(missing):
            if self.used + self.idle == self.total_blocks:
                self._idle.popitem(last=False)
            table.append(None)
            self._private += 1
        return True

    def publish(self, sequence: str, hashes: Sequence[BlockHash], computed_tokens: int) -> None:
        """Publish the blocks that `computed_tokens` have filled."""
        if not self._prefix_caching:
            return
        table = self._tables[sequence]
        for index in range(min(computed_tokens // self.block_size, len(hashes), len(table)) - 1, -1, -1):
            if table[index] is not None:
                break
            block_hash = hashes[index]
            # Two sequences may fill the same block in one step; the second keeps its private copy.
            if block_hash not in self._users:
                self._idle.pop(block_hash, None)
                self._users[block_hash] = 1
                table[index] = block_hash
                self._private -= 1

    def release(self, sequence: str) -> None:
        """Take a sequence's blocks back, its end first, so that beginnings stay cached longest."""
        for block_hash in reversed(self._tables.pop(sequence)):
            if block_hash is None:
                self._private -= 1
                continue
            self._users[block_hash] -= 1
            if self._users[block_hash] == 0:
                del self._users[block_hash]
                self._idle[block_hash] = None
