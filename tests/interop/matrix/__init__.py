"""Who reads what whom wrote: the cases, the programs, and what they are known to refuse.

- `model`: a small dataset as plain data, and what a program was seen to read of one.
- `cases`: the datasets.
- `writers`, `readers`: the programs, each behind one function.
- `compare`: what was read against what was to be written.
- `known`: the refusals and differences of today, each with the program's own words.
"""
