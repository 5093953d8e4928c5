"""From `app:flow` on a command line to the flow in that module."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import InvalidFlow
from headrace.runtime.flow import Flow


def load_flows(names: Sequence[str]) -> list[Flow]:
    """The flows these names stand for; two flows of one name are refused."""
    flows: dict[str, Flow] = {}
    for name in names:
        flow = load_flow(name)
        if flows.setdefault(flow.name, flow) is not flow:
            raise InvalidFlow(f"two flows are called {flow.name!r}", "a flow's name is its identity: rename one")
    return list(flows.values())


def load_flow(name: str) -> Flow:
    """Import `module:attribute`, looking in the current directory first as `python -m` does."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InvalidFlow(f"{name!r} does not name a flow", "write module:attribute, as in app:flow")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InvalidFlow(f"cannot import {module_name!r}: {_told(error)}", _import_hint(error, module_name)) from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Flow):
        flows = [key for key, value in vars(module).items() if isinstance(value, Flow)]
        what = "is not there" if found is None else f"is a {type(found).__name__}, not a Flow"
        raise InvalidFlow(f"{attribute!r} in {module_name!r} {what}", f"flows there: {', '.join(flows) or 'none'}")
    return found


def _told(error: BaseException) -> str:
    """The error with the line of the user's own code it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {error}{where}"


def _import_hint(error: BaseException, module_name: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == module_name.split(".")[0]:
        return f"start in the directory that holds {module_name.split('.')[0]}.py, or install it"
    return f"python -c 'import {module_name}' shows the same error"
