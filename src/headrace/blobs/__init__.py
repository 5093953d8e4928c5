"""Blobs in an S3 bucket or in a directory, by their paths; see docs/consuming.md.

blobs = Blobs("https://host:port/bucket", os.environ, "SHOP_S3_URL")      # or file:///directory
await blobs.prepare()
await blobs.put("images/1.jpg", data)
"""

from headrace.blobs.paths import PATH_BYTES_MAX, SEGMENT_BYTES_MAX, WrongPath, check_path
from headrace.blobs.places import S3Keys, make_directory
from headrace.blobs.store import SMALL_BYTES, Blobs

__all__ = [
    "PATH_BYTES_MAX",
    "SEGMENT_BYTES_MAX",
    "SMALL_BYTES",
    "Blobs",
    "S3Keys",
    "WrongPath",
    "check_path",
    "make_directory",
]
