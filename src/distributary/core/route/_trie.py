"""A compressed, mutable trie: finds the stored texts that are prefixes of a text.

A node represents one text; its children begin with it, each reached by the characters that it
adds. A search for all prefixes of a text takes one step for each branching point on its path, at
most one a character, for any number of texts.
"""

from distributary.core.route._buckets import Bucket


class _Node:
    """A node of the trie.

    Attributes:
        edge: The characters from the parent to this node.
        below: Children by the first character of their edges; None: none.
        bucket: The routes filed under this text; None: none, texts only branch here.
    """

    __slots__ = ("below", "bucket", "edge")

    def __init__(self, edge: str, bucket: Bucket | None = None) -> None:
        self.edge = edge
        self.below: dict[str, _Node] | None = None
        self.bucket = bucket


class Trie:
    """Buckets by text. Texts are not empty."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _Node("")

    def find(self, text: str, met: list[Bucket]) -> None:
        """Append to *met* the bucket of every text that *text* begins with."""
        below, start, end = self._root.below, 0, len(text)
        while below is not None and start < end:
            node = below.get(text[start])
            if node is None or not text.startswith(node.edge, start):
                return
            if node.bucket is not None:
                met.append(node.bucket)
            start += len(node.edge)
            below = node.below

    def get(self, text: str) -> Bucket | None:
        """Return the bucket of *text*."""
        path = self._path(text)
        return None if path is None else path[-1].bucket

    def put(self, text: str, bucket: Bucket) -> None:
        """Set the bucket of *text*."""
        node, start = self._root, 0
        while start < len(text):
            if node.below is None:
                node.below = {}
            child = node.below.get(text[start])
            if child is None:
                child = node.below[text[start]] = _Node(text[start:])
            else:
                shared = _shared_chars(child.edge, text, start)
                if shared < len(child.edge):
                    child = node.below[text[start]] = _parted(child, shared)
            node = child
            start += len(node.edge)
        node.bucket = bucket

    def remove(self, text: str) -> None:
        """Remove *text*, and the nodes that only led to it."""
        path = self._path(text)
        assert path is not None
        path[-1].bucket = None
        for above, node in zip(path[-2::-1], path[:0:-1], strict=True):
            assert above.below is not None
            if node.bucket is not None or (node.below is not None and len(node.below) > 1):
                return
            if node.below:
                ((_, child),) = node.below.items()
                child.edge = node.edge + child.edge
                above.below[node.edge[0]] = child
                return
            del above.below[node.edge[0]]
            if not above.below:
                above.below = None

    def __len__(self) -> int:
        """Return the number of nodes, for tests."""
        nodes, count = [self._root], 0
        while nodes:
            below = nodes.pop().below
            if below is not None:
                nodes.extend(below.values())
                count += len(below)
        return count

    def __bool__(self) -> bool:
        return self._root.below is not None

    def _path(self, text: str) -> list[_Node] | None:
        """Return the nodes from the root to *text*; None: it is not stored."""
        path, start = [self._root], 0
        while start < len(text):
            below = path[-1].below
            node = None if below is None else below.get(text[start])
            if node is None or not text.startswith(node.edge, start):
                return None
            path.append(node)
            start += len(node.edge)
        return path


def _shared_chars(edge: str, text: str, start: int) -> int:
    """Return the length of the common beginning of *edge* and of *text* from *start*."""
    if text.startswith(edge, start):
        return len(edge)
    shared = 0
    while edge[shared] == text[start + shared]:
        shared += 1
        if start + shared == len(text):
            break
    return shared


def _parted(node: _Node, chars: int) -> _Node:
    """Split the edge to *node*; return a new parent with its first *chars* characters."""
    upper = _Node(node.edge[:chars])
    node.edge = node.edge[chars:]
    upper.below = {node.edge[0]: node}
    return upper
