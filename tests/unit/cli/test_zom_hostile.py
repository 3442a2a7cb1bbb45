"""``nczfs zom`` refuses hostile texts in little time and memory."""

from __future__ import annotations

from pathlib import Path

from tests.support.bounded import watched
from tests.support.zomtexts import hostile_texts

GROWTH_MAX_MIB = 256
CPU_MAX_S = 3.0  # about one on a machine that does nothing else

_SETUP = """
import contextlib, io, re
from pathlib import Path
from nczfs.cli.main import main
import nczfs.zom
place = Path(sys.argv[1])
(place / "small.json").write_text('{"zarr_format": 2}')
assert main(["zom", "like", str(place / "small.json"), str(place / "small.json")]) == 0
"""
_ACT = """
for file in sorted(place.glob("hostile*.json")):
    why = file.with_suffix(".why").read_text()
    errors, began = io.StringIO(), time.process_time()
    with contextlib.redirect_stderr(errors):
        assert main(["zom", "create", str(place / "new.zarr"), str(file)]) == 1, why
    assert time.process_time() - began < {cpu_max_s}, (why, time.process_time() - began)
    assert re.search(why, errors.getvalue()), (why, errors.getvalue())
assert not (place / "new.zarr").exists()
"""


def test_hostile_texts_are_refused_in_little_time_and_memory(tmp_path: Path) -> None:
    count = 0
    for count, (_, text, why) in enumerate(hostile_texts(), 1):
        (tmp_path / f"hostile{count}.json").write_bytes(text)
        (tmp_path / f"hostile{count}.why").write_text(why)
    assert count
    took = watched(_SETUP, _ACT.format(cpu_max_s=CPU_MAX_S), tmp_path)
    assert took.grown_mib < GROWTH_MAX_MIB
