"""What can go wrong between us and a file server. Those with a * heal: the same call may be right later.

Unreachable *
└── ServerAway *             no answer, refused, cut off, or out of step
    └── TransferCut *            the connection ended before everything was there
Busy *
└── ServerBusy *             421 and other answers that say "not now"
OperatorError
├── LoginRefused *           user or password; asked again only after a pause, because accounts get locked
├── IdentityRefused *        a certificate or host key that is not to be trusted
├── FolderMissing *          the folder is not there
├── PasswordMissing *        the reference leads to no password
├── SpoolUnusable *          our own disk refuses to be read or written
└── CommandRefused           the server refuses what it should do
NotFound
└── FileGone                 no such file any more
TryAgain *
├── FileChanged *            it is not what was listed, or changed while it was read: it waits to be listed again
└── FileIncomplete *         its own first bytes say that there is more to come
Unknown *
└── RenameUnanswered *       the answer to a rename was lost: look where the file is
InvalidPayload
└── FileUnreadable           its first bytes are not those of such a file
StoreFull *
└── SpoolFull *              no room for what should be fetched

No message holds a password: texts of the server are cleaned of it before they become part of one.
"""

from __future__ import annotations

from headrace.errors import (
    Busy,
    InvalidPayload,
    NotFound,
    OperatorError,
    StoreFull,
    TryAgain,
    Unknown,
    Unreachable,
)


class ServerAway(Unreachable):
    """No answer, a refused connection, one that was cut off, or answers that are out of step."""


class TransferCut(ServerAway):
    """The data connection ended, or stood still, before everything was there. The server itself may be well."""


class ServerBusy(Busy):
    """The server said that it cannot now; with 421 it closed the connection."""


class LoginRefused(OperatorError):
    """User or password are not accepted."""

    heals = True


class IdentityRefused(OperatorError):
    """The server's certificate or host key is not one that we trust."""

    heals = True


class FolderMissing(OperatorError):
    """The folder is not there, or not for us."""

    heals = True


class PasswordMissing(OperatorError):
    """The reference to a password leads to none."""

    heals = True


class SpoolUnusable(OperatorError):
    """Our own disk refuses to be read or written: no file is at fault, and the same will work when it is mended."""

    heals = True


class CommandRefused(OperatorError):
    """The server refuses a command that should work."""


class FileGone(NotFound):
    """The file is not there any more."""


class FileChanged(TryAgain):
    """The file is not what was listed, or it changed while it was read."""


class FileIncomplete(TryAgain):
    """The first bytes of the file say that more of it is to come."""


class RenameUnanswered(Unknown):
    """The rename was sent and its answer was lost."""


class FileUnreadable(InvalidPayload):
    """The first bytes are not those of a performance file; another try changes nothing."""


class SpoolFull(StoreFull):
    """There is no room for a file now. Nothing was fetched, or what was fetched is on disk and will be continued."""
