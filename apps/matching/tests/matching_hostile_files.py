"""Files that somebody could send: broken, odd, or made to cost. Each has a name by which a test knows it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image


def noise(width: int, height: int, seed: int = 1) -> Image.Image:
    """A picture with something to see in it: large patches of colour."""
    chance = np.random.default_rng(seed)
    small = chance.integers(0, 255, (max(2, height // 16), max(2, width // 16), 3)).astype(np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.NEAREST)


def packed(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def good() -> Iterator[tuple[str, bytes, tuple[int, int]]]:
    """What can be read although it is not what one expects: a name, the bytes, and the size as it is shown."""
    plain = noise(320, 240)
    frames = [noise(96, 64, seed) for seed in range(4)]
    yield "plain.jpg", packed(plain, "JPEG", quality=85), (320, 240)
    yield "progressive.jpg", packed(plain, "JPEG", progressive=True), (320, 240)
    yield "cmyk.jpg", packed(plain.convert("CMYK"), "JPEG"), (320, 240)
    yield "grey.jpg", packed(plain.convert("L"), "JPEG"), (320, 240)
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "lying.jpg", packed(plain, "JPEG", exif=exif), (240, 320)
    yield "broken_metadata.jpg", packed(plain, "JPEG", exif=b"Exif\0\0II*\0" + b"\xff" * 40), (320, 240)
    yield "really_a_png.jpg", packed(plain, "PNG"), (320, 240)
    yield "palette.png", packed(plain.quantize(16), "PNG"), (320, 240)
    yield "transparent.png", packed(plain.convert("RGBA"), "PNG"), (320, 240)
    deep = Image.fromarray((np.arange(64 * 64).reshape(64, 64) * 15).astype(np.uint16))
    yield "sixteen_bits.png", packed(deep, "PNG"), (64, 64)
    yield "bits.png", packed(plain.convert("1"), "PNG"), (320, 240)
    yield "animated.gif", packed(frames[0], "GIF", save_all=True, append_images=frames[1:], loop=0), (96, 64)
    yield "animated.webp", packed(frames[0], "WEBP", save_all=True, append_images=frames[1:]), (96, 64)
    yield "animated.png", packed(frames[0], "PNG", save_all=True, append_images=frames[1:]), (96, 64)
    yield "strip.png", packed(noise(15_000, 20), "PNG"), (15_000, 20)
    yield (
        "large.png",
        packed(Image.new("RGBA", (6_300, 6_300), (200, 30, 30, 128)), "PNG", compress_level=1),
        (6_300,) * 2,
    )
    yield "large_palette.png", packed(Image.new("P", (6_300, 6_300)), "PNG", transparency=0), (6_300,) * 2
    yield "large.jpg", packed(Image.new("RGB", (7_900, 5_000), "blue"), "JPEG", progressive=True), (7_900, 5_000)


def bad() -> Iterator[tuple[str, bytes, str]]:
    """What must be refused: a name, the bytes, and how the reason begins."""
    jpeg, png = packed(noise(320, 240), "JPEG"), packed(noise(320, 240), "PNG")
    gif, webp = packed(noise(320, 240), "GIF"), packed(noise(320, 240), "WEBP")
    yield "empty.jpg", b"", "empty"
    yield "dot.png", packed(Image.new("RGB", (1, 1)), "PNG"), "too small"
    yield "thin.png", packed(Image.new("RGB", (400, 3)), "PNG"), "too small"
    for name, data in (("cut.jpg", jpeg), ("cut.png", png), ("cut.gif", gif), ("cut.webp", webp)):
        yield name, data[: len(data) // 2], "corrupt"
    yield "only_a_head.jpg", jpeg[:20], "not a picture"
    yield "flipped.png", png[:60] + bytes(255 - each for each in png[60:120]) + png[120:], "corrupt"
    yield "wide.png", png_head(20_000, 20_000), "too large"
    yield "wide.jpg", jpeg_head(20_000, 20_000), "too large"
    yield "long.png", packed(Image.new("1", (20_000, 40)), "PNG"), "too large"
    yield "huge.png", png_head(2_000_000_000, 2_000_000_000), "too large"
    yield "huge.gif", gif[:6] + struct.pack("<HH", 65_535, 65_535) + gif[10:], "too large"
    yield (
        "huge.bmp",
        b"BM" + struct.pack("<IHHIIiiHH", 54, 0, 0, 54, 40, 1 << 30, 1 << 30, 1, 24) + bytes(24),
        "too large",
    )
    yield "text_bomb.png", with_text_bomb(png), "corrupt"
    yield "many_scans.jpg", with_scans(packed(noise(320, 240), "JPEG", progressive=True), 3_000), "too laborious"
    yield "vector.jpg", b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', "not a picture: it is text"
    yield "page.jpg", b"\n<!DOCTYPE html><html><body>404</body></html>", "not a picture: it is text"
    yield "archive.jpg", archive(), "not a picture: it is a ZIP"
    yield "noise.jpg", np.random.default_rng(5).bytes(5_000), "not a picture"
    yield "document.jpg", b"%PDF-1.7\n" + bytes(500), "not a picture"
    yield "script.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_head(width: int, height: int) -> bytes:
    """A PNG that declares this size and has hardly any pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def jpeg_head(width: int, height: int) -> bytes:
    data = packed(noise(64, 64), "JPEG")
    start = data.index(b"\xff\xc0")
    return data[: start + 5] + struct.pack(">HH", height, width) + data[start + 9 :]


def with_text_bomb(png: bytes) -> bytes:
    """Text of 200 MB in 200 KB, before the pixels."""
    squeezed = zlib.compress(bytes(200 << 20), 1)
    return png[:33] + chunk(b"zTXt", b"bomb\0\0" + squeezed) + png[33:]


def with_scans(progressive: bytes, count: int) -> bytes:
    """The last scan again and again: each costs a passage over the whole picture."""
    scan = progressive[progressive.rindex(b"\xff\xda") : -2]
    return progressive[:-2] + scan * count + progressive[-2:]


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("bomb", bytes(10 << 20))
    return out.getvalue()
