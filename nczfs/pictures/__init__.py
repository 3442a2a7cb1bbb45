"""Pictures of variables and groups, as PNG.

`picture.py` is what others call: `is_available`, `variable_picture`, `group_picture`.

A picture is made in three steps: `composing.py` chooses the kind of plot, and reads few chunks
(`sampling.py`) with the help of the CF conventions (`conventions.py`, `unpacking.py`, `dates.py`);
the result is plain data (`scene.py`), which `drawing.py` draws with matplotlib, the only module
that imports it; `png.py` bounds the size of the file.
"""
