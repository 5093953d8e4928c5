"""An asset as a collector sends it: JSON with a URL, or a form with a file."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from starlette.datastructures import UploadFile
from starlette.requests import Request

from headrace.http import Problem
from headrace_matching.api.orders import URL_CHARS_MAX, web_address
from headrace_matching.assets.asset_values import OCTETS, SHOWN_AS_THEY_ARE, NewAsset
from headrace_matching.events.names import AssetKind

FILE = "file"
FIELDS_MAX = 20
ID = r"^[^/\x00-\x1f\x7f]+$"
"""It stands in paths, one segment each."""
OwnerId = Annotated[str, Field(min_length=1, max_length=200, pattern=ID)]


class AssetFields(BaseModel):
    """What is said of an asset, in either form."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    kind: AssetKind
    product_id: OwnerId | None = None
    video_id: OwnerId | None = None
    time_s: Annotated[float, Field(ge=0)] | None = None
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARS_MAX)] | None = None
    dead: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[^\x00]+$")] | None = None

    @field_validator("url")
    @classmethod
    def _is_web(cls, url: str | None) -> str | None:
        return None if url is None else web_address(url)

    @model_validator(mode="after")
    def _owned(self) -> AssetFields:
        owner, other = ("product_id", "video_id") if self.kind is AssetKind.IMAGE else ("video_id", "product_id")
        if getattr(self, owner) is None:
            raise ValueError(f"{owner} is missing: the kind {self.kind} belongs to one")
        if getattr(self, other) is not None:
            raise ValueError(f"{other} is not for the kind {self.kind}")
        return self

    @property
    def owner_id(self) -> str:
        return str(self.product_id if self.kind is AssetKind.IMAGE else self.video_id)


async def read_upload(request: Request) -> NewAsset:
    """The asset of a request, or a problem that says what is wrong."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "multipart/form-data":
        async with request.form(max_files=1, max_fields=FIELDS_MAX) as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
            file = form.get(FILE)
            if not isinstance(file, UploadFile):
                raise Problem(422, "invalid", f"{FILE}: the form has no part of this name with a file")
            fields = _checked(given)
            return _made(fields, await file.read(), file.content_type or OCTETS)
    try:
        given = await request.json()
    except ValueError:
        raise Problem(400, "not-json", "the body cannot be read as JSON in UTF-8") from None
    fields = _checked(given)
    if fields.url is None and fields.dead is None:
        raise Problem(422, "invalid", "url: an asset has a url, a file, or a reason why it is dead")
    return _made(fields, None, "")


def _checked(given: Any) -> AssetFields:
    try:
        return AssetFields.model_validate(given)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(found, body=given) from None


def _made(fields: AssetFields, content: bytes | None, media_type: str) -> NewAsset:
    kind = media_type.partition(";")[0].strip().lower()
    return NewAsset(
        kind=fields.kind,
        owner_id=fields.owner_id,
        time_s=fields.time_s,
        content=content,
        media_type=kind if kind in SHOWN_AS_THEY_ARE or content is None else OCTETS,
        url=fields.url if content is None else None,
        dead=fields.dead,
    )
