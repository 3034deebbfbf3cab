"""MODEL as people write it: a file, a folder, stdin, a cached model, a model on the hub."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from tonnage.arch import catalog, load
from tonnage.errors import InputError

CONFIG = json.dumps(dict(catalog.entries()["qwen3-8b"].config)).encode()
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a network that no test reaches by accident."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    answer(monkeypatch, lambda: pytest.fail("the network was used"))


def answer(monkeypatch: pytest.MonkeyPatch, reply: Callable[[], Any]) -> list[str]:
    """Let ``reply`` stand in for the network; the URLs that are asked for are listed."""
    asked: list[str] = []

    def urlopen(request: Any, timeout: float) -> Any:
        assert timeout == 10
        asked.append(request.full_url)
        return reply()

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return asked


def failing(error: Exception) -> Callable[[], Any]:
    def reply() -> Any:
        raise error

    return reply


def refusal(model: str) -> InputError:
    with pytest.raises(InputError) as caught:
        load(model)
    assert caught.value.field == "MODEL"
    return caught.value


def test_a_file_and_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_bytes(CONFIG)
    for model in (folder, folder / "config.json"):
        architecture = load(str(model))
        assert architecture.name == "my-model"
        assert architecture.source == str(folder / "config.json")


def test_a_file_of_another_name_gives_its_own(tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_bytes(CONFIG)
    assert load(str(tmp_path / "tiny.json")).name == "tiny"


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CONFIG)))
    architecture = load("-")
    assert (architecture.name, architecture.family) == ("stdin", "qwen3")


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    assert refusal(str(tmp_path)).problem == "holds no config.json"


@pytest.mark.parametrize("model", ["./nowhere/config.json", "/nowhere", "nowhere.json", "a/b.json"])
def test_a_path_that_leads_nowhere(model: str) -> None:
    assert refusal(model).problem == "does not exist"


@pytest.mark.parametrize("model", ["", " ", "a\0b", "../..x", "x" * 5000, "a/b/c", "org/../x"])
def test_names_of_nothing(model: str) -> None:
    assert len(str(refusal(model))) < 400


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(CONFIG[:-20])
    assert refusal(str(path)).problem.startswith("is not JSON: ")


def test_the_cache_comes_before_the_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = tmp_path / "hf" / "hub" / "models--acme--rocket"
    stale = model / "snapshots" / ("f" * 40)
    pinned = model / "snapshots" / REVISION
    for snapshot, config in ((pinned, CONFIG), (stale, b"{}")):
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_bytes(config)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(REVISION)
    architecture = load("acme/rocket")
    assert architecture.name == "acme/rocket"
    assert architecture.source == str(pinned / "config.json")

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.delenv("HF_HOME")
    assert load("acme/rocket") == architecture


def test_a_cache_without_refs_gives_the_only_snapshot(tmp_path: Path) -> None:
    snapshot = tmp_path / "hf" / "hub" / "models--acme--rocket" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(CONFIG)
    assert load("acme/rocket").hidden == 4096


def test_the_hub_is_asked_for_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, lambda: io.BytesIO(CONFIG))
    architecture = load("acme/rocket")
    assert asked == ["https://huggingface.co/acme/rocket/resolve/main/config.json"]
    assert architecture.source == asked[0]

    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    load("acme/rocket")
    assert asked[1] == "https://mirror.example/acme/rocket/resolve/main/config.json"


def test_an_endpoint_must_be_a_web_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(InputError, match="HF_ENDPOINT"):
        load("acme/rocket")


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_is_respected(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    error = refusal("acme/rocket")
    assert error.problem == f"is not cached, and {variable} keeps Tonnage offline"
    assert error.hint == (
        "unset it, or give a catalog name, or the path of a config.json that you have"
    )


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (URLError(socket.gaierror(-2, "Name or service not known")), "cannot be reached"),
        (TimeoutError("timed out"), "cannot be reached (timed out)"),
        (ConnectionResetError(104, "reset by peer"), "cannot be reached"),
    ],
)
def test_an_unreachable_hub(
    monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str
) -> None:
    answer(monkeypatch, failing(error))
    told = refusal("acme/rocket")
    assert problem in told.problem
    assert told.hint.startswith("offline, give a catalog name")


@pytest.mark.parametrize(
    ("status", "problem"),
    [(404, "has no config.json"), (401, "is gated, private or absent"), (503, "was refused by")],
)
def test_what_the_hub_refuses(monkeypatch: pytest.MonkeyPatch, status: int, problem: str) -> None:
    answer(monkeypatch, failing(HTTPError("https://x", status, "", None, io.BytesIO())))  # type: ignore[arg-type]
    assert refusal("acme/rocket").problem.startswith(problem)


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, lambda: io.BytesIO(b" " * (9 * 2**20)))
    assert refusal("acme/rocket").problem == "is larger than the 8 MiB that are read"
