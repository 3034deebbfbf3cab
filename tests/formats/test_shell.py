"""Scripts read for what they would start: followed, and never run."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import InputError
from tonnage.files import UnreadableError
from tonnage.formats.command import read_command, read_options
from tonnage.formats.document import Document
from tonnage.formats.expressions import layer_pattern
from tonnage.formats.shell import read_script


def command(text: str) -> dict[str, object]:
    document = Document(name="x.sh", syntax="shell", text=text)
    return dict(read_command(document).options)


def last(text: str) -> tuple[str, ...]:
    return read_script(text).commands[-1]


def test_variables_arrays_and_arithmetic_are_followed() -> None:
    text = r"""
    A=8 ; B=$((A * 2 + 1)) ; NAMES=(one "two three")
    ARGS=(--n $B  # a comment
        --m ${MISSING:-4} --k "${NAMES[@]}")
    ARGS+=(--last "$((${A}/2))")
    echo x > /dev/null 2>&1 | cat
    run.py "${ARGS[@]}"
    """
    assert last(text) == (
        *("run.py", "--n", "17", "--m", "4", "--k", "one", "two three"),
        *("--last", "4"),
    )


def test_a_string_of_options_is_cut_into_words() -> None:
    text = 'OPTIONS=" \\\n  --a 1 \\\n  --b"\npython train.py $OPTIONS --c "$OPTIONS"'
    words = last(text)
    assert words[:6] == ("python", "train.py", "--a", "1", "--b", "--c")
    assert len(words) == 7


def test_what_only_a_shell_would_know_stays_as_it_is_written() -> None:
    words = last("python t.py --a $(nproc) --b `date` --c $HOME --d ${1} --e ${X%.*} --f '$A'")
    assert words[2:] == (
        *("--a", "$(nproc)", "--b", "`date`", "--c", "${HOME}"),
        *("--d", "${1}", "--e", "${X%.*}", "--f", "$A"),
    )


def test_conditions_on_what_the_script_assigns_are_decided() -> None:
    text = """
    SIZE=7B
    if [ "$SIZE" == 7B ]; then L=32; elif [ "$SIZE" == 13B ]; then L=40; else L=1; fi
    if [[ $L -gt 40 || $UNKNOWN == 1 ]]; then L=2; fi
    case $SIZE in
      13B|34B) H=5120 ;;
      7*) H=4096 ;;
      *) H=1 ;;
    esac
    [ -n "$SIZE" ] && W=1 || W=2
    f() { L=99; }
    for x in 1 2; do L=98; done
    python t.py $L $H $W
    """
    script = read_script(text)
    assert script.commands[-1] == ("python", "t.py", "32", "4096", "1")
    assert "a loop is not followed" in script.notes
    assert any("does not decide" in note for note in script.notes)


def test_a_command_in_quotes_is_followed_and_a_here_document_is_not() -> None:
    text = """
    cat <<EOF > ds.json
    python not_this.py --a 1 --b 2 --c 3
    EOF
    ARGS="--hidden-size 8 --num-layers 2"
    srun -N 4 --ntasks-per-node=8 bash -c "python -u pretrain_gpt.py ${ARGS}"
    """
    assert command(text) == {"--hidden-size": "8", "--num-layers": "2"}


def test_processes_are_counted_from_launcher_scheduler_or_variables() -> None:
    def gpus(text: str) -> int | None:
        return read_command(Document(name="x.sh", syntax="shell", text=text)).gpus

    assert gpus("torchrun --nproc_per_node 8 --nnodes=4 t.py --a 1") == 32
    assert gpus("torchrun --nproc-per-node 8 t.py --a 1") == 8
    assert gpus("torchrun --nproc-per-node 8 --nnodes $N t.py --a 1") is None
    assert gpus("#SBATCH --nodes=2\n#SBATCH --gpus-per-node 4\nsrun python t.py --a 1") == 8
    assert gpus("NNODES=3\nGPUS_PER_NODE=8\npython t.py --a 1") == 24
    assert gpus("mpirun -np 16 python t.py --a 1") == 16
    assert gpus("python t.py --a 1") is None


def test_options_take_values_and_overrides_keep_their_names() -> None:
    words = ["--a", "--b=2", "--c", "1", "2", "-3", "+model.x=4", "trainer.y=5", "-N", "6"]
    assert read_options(words) == {
        "--a": True,
        "--b": "2",
        "--c": ["1", "2", "-3"],
        "model.x": "4",
        "trainer.y": "5",
        "-N": "6",
    }


def test_patterns_of_layers() -> None:
    assert layer_pattern("([0]*3+[1]*2)") == [0, 0, 0, 1, 1]
    assert layer_pattern("2") == 2
    assert layer_pattern("[1,1,0]*2") == [1, 1, 0, 1, 1, 0]
    for odd in ("[0]*10**9", "__import__('os')", "[0]*-1+", "x", "[0]*999999999"):
        assert layer_pattern(odd) is None


def test_values_that_double_without_end_are_refused() -> None:
    text = "A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 60
    with pytest.raises(UnreadableError, match="too many words"):
        read_script(text)


@given(text=st.text(alphabet="abX=$(){}[]<>|&;\"'`\\\n #-+*0129 ift henelsdocasw@!", max_size=80))
def test_no_text_is_followed_into_another_error(text: str) -> None:
    with contextlib.suppress(InputError):
        read_command(Document(name="x.sh", syntax="shell", text=text))


def test_conditions_in_conditions_without_end_are_read_in_moments() -> None:
    begun = time.process_time()
    read_script("if [ 1 ]; then " * 10_000)
    assert time.process_time() - begun < 5
