"""Every error that headrace raises, by who must act: `CallerError` (the request is wrong), `OperatorError` (the
surroundings are), `TryAgain` (nobody: the same call again is right). `error.heals` says of any of them whether to wait,
`error.hint` what to do about it.
"""

from __future__ import annotations

from headrace.core.errors import Busy as Busy
from headrace.core.errors import CallerError as CallerError
from headrace.core.errors import ClaimLost as ClaimLost
from headrace.core.errors import ClockSkewed as ClockSkewed
from headrace.core.errors import Conflict as Conflict
from headrace.core.errors import HandlersHang as HandlersHang
from headrace.core.errors import HeadraceError as HeadraceError
from headrace.core.errors import InvalidFlow as InvalidFlow
from headrace.core.errors import InvalidPayload as InvalidPayload
from headrace.core.errors import MissingExtra as MissingExtra
from headrace.core.errors import NotFound as NotFound
from headrace.core.errors import OperatorError as OperatorError
from headrace.core.errors import PortTaken as PortTaken
from headrace.core.errors import SchemaMismatch as SchemaMismatch
from headrace.core.errors import StoreFull as StoreFull
from headrace.core.errors import StoreReplaced as StoreReplaced
from headrace.core.errors import TooLarge as TooLarge
from headrace.core.errors import TransactionEnded as TransactionEnded
from headrace.core.errors import TryAgain as TryAgain
from headrace.core.errors import Unknown as Unknown
from headrace.core.errors import UnknownStage as UnknownStage
from headrace.core.errors import Unreachable as Unreachable
from headrace.core.errors import UnsafeStore as UnsafeStore
from headrace.core.errors import suppress_healing as suppress_healing
from headrace.core.errors import writing_to as writing_to

__all__ = [
    "HeadraceError",
    "CallerError",
    "InvalidFlow",
    "InvalidPayload",
    "UnknownStage",
    "TooLarge",
    "NotFound",
    "Conflict",
    "ClaimLost",
    "TransactionEnded",
    "OperatorError",
    "Unreachable",
    "SchemaMismatch",
    "UnsafeStore",
    "StoreFull",
    "StoreReplaced",
    "ClockSkewed",
    "PortTaken",
    "HandlersHang",
    "MissingExtra",
    "TryAgain",
    "Unknown",
    "Busy",
    "suppress_healing",
    "writing_to",
]
