from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.running import run

MODEL = ("roofline", "llama-3.1-8b")


def test_the_terminal_has_roofs_a_plot_and_a_table_for_each_phase() -> None:
    text = run(*MODEL, "--device", "H100,A100").out
    assert "ridge 295 FLOP/byte" in text
    assert "ridge 153 FLOP/byte" in text
    for phase in ("training", "prefill", "decode"):
        assert f"llama-3.1-8b {phase}" in text
    assert "╱" in text
    assert max(map(len, text.splitlines())) <= 80


def test_roofs_alone_need_no_model() -> None:
    assert run("roofline").out.count("ridge") == 1
    assert run("roofline", "--json").json()["points"] == []


def test_json_has_every_operation_on_every_device() -> None:
    found = run(*MODEL, "--device", "H100,A100", "--json").json()
    assert [roof["device"] for roof in found["roofs"]] == ["H100-SXM5-80GB", "A100-SXM4-80GB"]
    assert {point["phase"] for point in found["points"]} == {"training", "prefill", "decode"}
    decode = [point for point in found["points"] if point["phase"] == "decode"]
    assert {entry["bound"] for p in decode for entry in p["devices"].values()} == {"memory"}


def test_svg_has_a_disc_for_each_point_and_roof(tmp_path: Path) -> None:
    path = tmp_path / "roof.svg"
    found = run(*MODEL, "--device", "H100,A100", "--out", str(path), "--json").json()
    tree = ElementTree.parse(path)
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert len(tree.findall("svg:polyline", space)) == 2
    assert len(tree.findall("svg:circle", space)) == 2 * len(found["points"])
    width, height = 960, 600
    for disc in tree.findall("svg:circle", space):
        assert 0 < float(disc.attrib["cx"]) < width
        assert 0 < float(disc.attrib["cy"]) < height


def test_a_name_cannot_break_the_picture(tmp_path: Path) -> None:
    folder = tmp_path / "a<b&c"
    folder.mkdir()
    config = (
        '{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, '
        '"vocab_size": 100}'
    )
    (folder / "config.json").write_text(config, encoding="utf-8")
    path = tmp_path / "roof.svg"
    assert run("roofline", str(folder), "--out", str(path), "--seq=128").code == 0
    assert "a<b&c" in "".join(ElementTree.parse(path).getroot().itertext())


def test_html_is_a_page_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    path = tmp_path / "roof.html"
    assert run(*MODEL, "--out", str(path)).code == 0
    page = path.read_text(encoding="utf-8")
    assert "llama-3.1-8b decode" in page
    assert 'src="http' not in page


def test_png_is_drawn_or_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "roof.png"
    result = run("roofline", "--out", str(path))
    if result.code == 0:
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert result.code == 4
        assert "tonnage[png]" in result.err
        assert not path.exists()


@pytest.mark.parametrize(
    ("part", "name", "extra"), [("plotly", "x.html", "plot"), ("cairosvg", "x.png", "png")]
)
def test_a_missing_part_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str, extra: str
) -> None:
    for module in [m for m in sys.modules if m.split(".")[0] == part]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, part, None)
    result = run("roofline", "--out", str(tmp_path / name))
    assert result.code == 4
    assert f"pip install 'tonnage[{extra}]'" in result.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--device", "abacus"),
        ("--device", ""),
        ("--device", ",".join(["H100"] * 9)),
        ("--device", "V100", "--dtype", "fp8"),
        ("--dtype", "fp12"),
        ("no-such-model",),
        ("llama-3.1-8b", "--seq", "0"),
        ("llama-3.1-8b", "--mbs", "-1"),
        ("llama-3.1-8b", "--seq", "8k"),
        ("--out", "roof.gif"),
        ("--out", "no-such-folder/roof.svg"),
    ],
)
def test_what_makes_no_sense_is_one_error(words: tuple[str, ...]) -> None:
    result = run("roofline", *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
