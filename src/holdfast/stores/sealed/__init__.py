"""A store around another: payloads are encrypted, or moved into blobs, on their way into it."""

from holdfast.stores.sealed.store import SealedStore

__all__ = ["SealedStore"]
