"""config.json of a model on the Hugging Face hub: from the local cache, else over the network.

Only the one file is ever fetched. Nothing that a repository holds is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonnage.arch.config import LARGEST_FILE, parse_config
from tonnage.errors import InputError

TIMEOUT_SECONDS: Final = 10

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_TRUE: Final = frozenset({"1", "on", "yes", "true"})
_WAY_OUT: Final = "give a catalog name, or the path of a config.json that you have"


def is_hub_name(model: str) -> bool:
    """Whether this could be ``organisation/model`` on the hub."""
    return _NAME.fullmatch(model) is not None and ".." not in model


def cached_config(model: str) -> Path | None:
    """The config.json that `huggingface_hub` has cached for a model, or None."""
    folder = _cache() / f"models--{model.replace('/', '--')}"
    snapshots = folder / "snapshots"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        revision = ""
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        pinned = snapshots / revision / "config.json"
        if pinned.is_file():
            return pinned
    found = [path for path in snapshots.glob("*/config.json") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def fetch_config(model: str) -> tuple[Mapping[str, object], str]:
    """Fetch config.json, and nothing else, from the hub.

    Returns:
        The parsed file, and the URL that it came from.

    Raises:
        InputError: the hub is off limits, cannot be reached or has no such file.
    """
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(variable, "").lower() in _TRUE:
            raise _unavailable(
                model,
                f"is not cached, and {variable} keeps Tonnage offline",
                f"unset it, or {_WAY_OUT}",
            )
    url = f"{_endpoint()}/{model}/resolve/main/config.json"
    return parse_config(_download(url, model=model), model=model), url


def _download(url: str, *, model: str) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(url, headers={"User-Agent": "tonnage"})
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            data: bytes = response.read(LARGEST_FILE + 1)
            return data
    except HTTPError as error:
        error.close()
        raise _unavailable(model, _refusal(error.code, url), _WAY_OUT) from None
    except (OSError, HTTPException, ValueError) as error:  # URLError and timeouts are OSErrors
        reason = " ".join(str(getattr(error, "reason", None) or error or "timed out").split())
        raise _unavailable(
            model,
            f"is not cached, and {url} cannot be reached ({reason[:120]})",
            f"offline, {_WAY_OUT}",
        ) from None


def _refusal(status: int, url: str) -> str:
    if status == 404:
        return f"has no config.json at {url}"
    if status in (401, 403):
        return f"is gated, private or absent at {url} (HTTP {status})"
    return f"was refused by {url} (HTTP {status})"


def _endpoint() -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise InputError(
            field="HF_ENDPOINT",
            value=endpoint,
            problem="is not a web address",
            accepted="https://…",
        )
    return endpoint


def _cache() -> Path:
    """Where `huggingface_hub` keeps its cache, by the same variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.path.expanduser(os.environ[variable]))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = os.environ.get("HF_HOME") or os.path.join(home, "huggingface")
    return Path(os.path.expanduser(home)) / "hub"


def _unavailable(model: str, problem: str, hint: str) -> InputError:
    return InputError(field="MODEL", value=model, problem=problem, hint=hint)
