"""The modules that users and applications may import; everything else may change without a word."""

from __future__ import annotations

PUBLIC = {
    "headrace",
    "headrace.blobs",
    "headrace.commands",
    "headrace.consuming",
    "headrace.errors",
    "headrace.http",
    "headrace.pages",
    "headrace.ports",
    "headrace.schedules",
    "headrace.services",
    "headrace.sources",
    "headrace.tables",
    "headrace.testing",
    "headrace.testing.rig",
}
