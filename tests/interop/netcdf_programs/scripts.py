"""Scripts of other languages, and compiled programs."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from tests.interop.netcdf_programs.field import EDITED, VARIABLE
from tests.interop.netcdf_programs.program import (
    CLASSIC,
    DATA,
    Live,
    Program,
    alone,
    libraries,
    numbers,
    printed,
    run,
    shared,
)
from tests.support.sample import Values


@functools.cache
def compiled(source: str) -> Path:
    """Compile a program of tests/data; it goes with the run."""
    program = Path(tempfile.mkdtemp(), source.replace(".", "-"))
    words = ["-O1", "-Wall", "-o", str(program), str(DATA / source)]
    if source.endswith(".c"):
        flags = printed("nc-config", "--cflags", "--libs").split()
        printed("gcc", "-Werror", *words, *flags)
    else:
        flags = printed("nf-config", "--fflags", "--flibs").split()
        printed("gfortran", *words, *flags)
    return program


def _c(task: str, live: Live, *words: str) -> str:
    return printed(compiled("netcdffield.c"), task, live.file, *words)


def _c_spoil(live: Live) -> subprocess.CompletedProcess[str]:
    return run(compiled("netcdffield.c"), "spoil", live.file)


def _fortran(task: str, live: Live, *words: str) -> str:
    return printed(compiled("netcdffield.f90"), task, live.file, *words)


def _fortran_spoil(live: Live) -> subprocess.CompletedProcess[str]:
    return run(compiled("netcdffield.f90"), "spoil", live.file)


R_READ = """
library(ncdf4)
file <- nc_open(commandArgs(TRUE)[1])
cat(format(as.vector(ncvar_get(file, "t2m")), digits = 9), sep = "\\n")
nc_close(file)
"""
R_EDIT = """
library(ncdf4)
file <- nc_open(commandArgs(TRUE)[1], write = TRUE)
ncvar_put(file, "t2m", 275.5, start = c(4, 3, 2), count = c(1, 1, 1))
nc_close(file)
"""
R_VERSION = 'cat(as.character(packageVersion("ncdf4")))'
PERL_VERSION = "print $PDL::NetCDF::VERSION"
PERL_READ = """
use Fcntl; use PDL; use PDL::NetCDF;
my $file = PDL::NetCDF->new($ARGV[0], {MODE => O_RDONLY});
print join("\\n", $file->get("t2m")->list);
"""
PERL_EDIT = """
use Fcntl; use PDL; use PDL::NetCDF;
my $file = PDL::NetCDF->new($ARGV[0], {MODE => O_RDWR});
$file->putslice("t2m", [], [], [1, 2, 3], [1, 1, 1], float([[[275.5]]]));
$file->close;
"""
RUBY_READ = """
require "numru/netcdf"
file = NumRu::NetCDF.open(ARGV[0])
puts file.var("t2m").get.to_a.flatten
file.close
"""
RUBY_EDIT = """
require "numru/netcdf"
file = NumRu::NetCDF.open(ARGV[0], "r+")
file.var("t2m").put(275.5, "index" => [3, 2, 1])
file.close
"""


def _r(script: str, live: Live) -> str:
    return printed("Rscript", "-e", script, live.file)


def _perl(script: str, live: Live) -> str:
    return printed("perl", "-e", script, live.file)


def _ruby(script: str, live: Live) -> str:
    return printed("ruby", "-e", script, live.file)


def read_by_od(live: Live) -> Values:
    """Compute from the header where each record lies, and read that with od.

    Every byte comes from od; the rules are those of the specification of the classic format.
    """

    def od(offset: int, kind: str, size: int) -> list[str]:
        words = ["od", "-An", "-v", "--endian=big", "-t", kind, "-j", str(offset), "-N", str(size)]
        return printed(*words, live.file).split()

    head = [int(byte) for byte in od(0, "u1", 4096)]
    version = head[3]
    assert bytes(head[:3]) == b"CDF"
    of_count, of_begin = 8 if version == 5 else 4, 4 if version == 1 else 8
    at = 4

    def number(size: int) -> int:
        nonlocal at
        at += size
        return int.from_bytes(bytes(head[at - size : at]), "big")

    def name() -> str:
        nonlocal at
        size = number(of_count)
        start, at = at, at + -(-size // 4) * 4
        return bytes(head[start : start + size]).decode()

    def attributes() -> None:
        nonlocal at
        number(4)
        for _ in range(number(of_count)):
            name()
            size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8}[number(4)]
            size *= number(of_count)
            at += -(-size // 4) * 4

    records = number(of_count)
    number(4)
    lengths = [(name(), number(of_count))[1] for _ in range(number(of_count))]
    attributes()
    number(4)
    record_size, start, sizes = 0, 0, list[int]()
    for _ in range(number(of_count)):
        variable = name()
        shape = [lengths[number(of_count)] for _ in range(number(of_count))]
        attributes()
        number(4)
        size, begin = number(of_count), number(of_begin)
        record_size += size if shape[:1] == [0] else 0
        if variable == VARIABLE:
            start, sizes = begin, shape
    cells = sizes[1] * sizes[2]
    lines = [od(start + n * record_size, "f4", 4 * cells) for n in range(records)]
    return numbers(" ".join(word for line in lines for word in line))


_FORTRAN = shared(r"(\d\S+)", "nf-config", "--version")

SCRIPTS = (
    Program(
        "C",
        libraries,
        lambda live: numbers(_c("read", live)),
        edit=lambda live: _c("edit", live, str(EDITED)),
        spoil=_c_spoil,
        remarks="a program with `nc_get_vara` and `nc_put_var1`",
    ),
    Program(
        "Fortran",
        _FORTRAN,
        lambda live: numbers(_fortran("read", live)),
        edit=lambda live: _fortran("edit", live, str(EDITED)),
        spoil=_fortran_spoil,
        remarks="`nf90_get_var` step by step; `nf90_open` with `NF90_WRITE`",
    ),
    Program(
        "Fortran, hyperslabs",
        _FORTRAN,
        lambda live: numbers(_fortran("blocks", live)),
    ),
    Program(
        "R ncdf4",
        shared(r"(\S+)", "Rscript", "-e", R_VERSION),
        lambda live: numbers(_r(R_READ, live)),
        edit=lambda live: _r(R_EDIT, live),
        remarks="of the classic format not CDF-5",
    ),
    Program(
        "Perl PDL::NetCDF",
        shared(r"(\S+)", "perl", "-MPDL::NetCDF", "-e", PERL_VERSION),
        lambda live: numbers(_perl(PERL_READ, live)),
        edit=lambda live: _perl(PERL_EDIT, live),
    ),
    Program(
        "Ruby NetCDF",
        libraries,
        lambda live: numbers(_ruby(RUBY_READ, live)),
        edit=lambda live: _ruby(RUBY_EDIT, live),
    ),
    Program(
        "od",
        alone(r"\) (\S+)", "od", "--version"),
        read_by_od,
        formats=(CLASSIC,),
        remarks="offsets computed from the header by hand",
    ),
)
