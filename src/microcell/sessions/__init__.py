"""Tables that come in parts: cells begun before all records are in, and one release when they are."""

from microcell.sessions.session import Session, start
from microcell.sessions.states import Batch
from microcell.sessions.stored import Status, StoredSession

__all__ = ["Batch", "Session", "Status", "StoredSession", "start"]
