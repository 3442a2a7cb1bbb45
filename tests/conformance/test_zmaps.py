"""The stores, and the wrappers round them, against the conformance suite."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nczfs.errors import ObjectExists
from nczfs.testing.faults import Faulty
from nczfs.testing.zmap import Populate, ZMapReadSuite, ZMapSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.inblocks import InBlocks
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Metered, Prefixed, ReadOnly
from nczfs.zmap.zip import ZipZMap
from nczfs.zmap.zip.creating import ArchiveForm, create_archive
from nczfs.zmap.zip.growing import Commit
from nczfs.zmap.zip.local import LocalZipOptions, LocalZipZMap
from tests.support.folding import fold_names


class TestMemory(ZMapSuite):
    @pytest.fixture
    def zmap(self) -> ZMap:
        return MemoryZMap()

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        found = vars(zmap)["_objects"].get(key)
        return None if found is None else bytes(found.data)


class TestPrefixedMemory(ZMapSuite):
    @pytest.fixture
    def zmap(self) -> ZMap:
        self.outer = MemoryZMap()
        self.outer.write(Key("p/qx"), b"a neighbour")
        return Prefixed(self.outer, Prefix("p/q"))

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        found = vars(self.outer)["_objects"].get(f"p/q/{key}")
        return None if found is None else bytes(found.data)


class _OnDisk(ZMapSuite):
    root: Path
    key_beside_prefix = False

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        path = self.root / key
        return path.read_bytes() if path.is_file() else None


class TestDirectory(_OnDisk):
    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.root = tmp_path
        zmap = DirectoryZMap(tmp_path)
        yield zmap
        zmap.close()


class TestDirectoryThatWaitsForTheDisk(_OnDisk):
    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.root = tmp_path
        zmap = DirectoryZMap(tmp_path, durable=True)
        yield zmap
        zmap.close()


class TestDirectoryWithoutCase(_OnDisk):
    """On a file system that takes names for one that differ in case."""

    @pytest.fixture
    def zmap(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZMap]:
        self.root = tmp_path
        fold_names(monkeypatch)
        zmap = DirectoryZMap(tmp_path)
        zmap.prepare_writing()
        yield zmap
        zmap.close()

    def test_names_that_differ_in_case_are_told_apart_where_the_store_says_so(
        self, populate: Populate
    ) -> None:
        with pytest.raises(ObjectExists, match="Case: case exists, which this file system"):
            populate({"case": b"lower", "Case": b"upper"})
        assert (self.root / "case").read_bytes() == b"lower"


class TestPrefixedDirectory(_OnDisk):
    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.root = tmp_path / "some" / "prefix"
        outer = DirectoryZMap(tmp_path)
        outer.write(Key("some/prefixed"), b"a neighbour")
        outer.write(Key("other"), b"another neighbour")
        yield Prefixed(outer, Prefix("some/prefix"))
        outer.close()


class TestMeteredDirectory(_OnDisk):
    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.root = tmp_path
        zmap = Metered(DirectoryZMap(tmp_path), "test")
        yield zmap
        zmap.close()


class TestFaultyWithoutFaults(_OnDisk):
    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.root = tmp_path
        zmap = Faulty(DirectoryZMap(tmp_path), page_entries=3)
        yield zmap
        zmap.close()


class TestReadOnlyWrapper(ZMapReadSuite):
    @pytest.fixture
    def populate(self) -> Populate:
        def fill(objects: Mapping[str, bytes]) -> ZMap:
            inner = MemoryZMap()
            for key, data in objects.items():
                inner.write(parse_key(key), data)
            return ReadOnly(inner)

        return fill


class TestReadAhead(ZMapReadSuite):
    """Objects in blocks, as far archives are read."""

    @pytest.fixture
    def populate(self) -> Populate:
        def fill(objects: Mapping[str, bytes]) -> ZMap:
            inner = MemoryZMap()
            for key, data in objects.items():
                inner.write(parse_key(key), data)
            return InBlocks(inner)

        return fill


class TestReadOnlyDirectory(ZMapReadSuite):
    key_beside_prefix = False

    @pytest.fixture
    def populate(self, tmp_path: Path) -> Populate:
        def fill(objects: Mapping[str, bytes]) -> ZMap:
            inner = DirectoryZMap(tmp_path)
            for key, data in objects.items():
                inner.write(parse_key(key), data)
            return DirectoryZMap(tmp_path, read_only=True)

        return fill


class _Zip(ZMapReadSuite):
    """The members of an archive; `under` is the directory that holds them all in it."""

    method = zipfile.ZIP_STORED
    under = ""
    top: str | None = ""

    @pytest.fixture
    def populate(self, source: ZMap) -> Populate:
        def fill(objects: Mapping[str, bytes]) -> ZMap:
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w", self.method) as archive:
                if self.under:
                    archive.mkdir(self.under)
                for key, data in objects.items():
                    archive.writestr(f"{self.under}{key}", data)
            source.write(Key("below/data.zip"), file.getvalue())
            return ZipZMap(source, Key("below/data.zip"), top=self.top)

        return fill

    @pytest.fixture
    def source(self) -> ZMap:
        return MemoryZMap()


class TestStoredZip(_Zip):
    pass


class TestDeflatedZip(_Zip):
    method = zipfile.ZIP_DEFLATED


class TestPrefixedZip(_Zip):
    @pytest.fixture
    def populate(self, source: ZMap) -> Populate:
        def fill(objects: Mapping[str, bytes]) -> ZMap:
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("p/qx", b"a neighbour")
                for key, data in objects.items():
                    archive.writestr(f"p/q/{key}", data)
            source.write(Key("data.zip"), file.getvalue())
            return Prefixed(ZipZMap(source, Key("data.zip"), top=""), Prefix("p/q"))

        return fill


class TestBzip2Zip(_Zip):
    method = zipfile.ZIP_BZIP2


class TestLzmaZip(_Zip):
    method = zipfile.ZIP_LZMA


class TestZipInADirectoryWithATopDirectory(_Zip):
    under = "data/"
    top = None

    @pytest.fixture
    def source(self, tmp_path: Path) -> ZMap:
        return DirectoryZMap(tmp_path)


class _WritableZip(ZMapSuite):
    """An archive that is a file; `peek` is Python's zipfile, after a flush."""

    form: ArchiveForm = "top"
    options = LocalZipOptions()
    under = "data/"
    path: Path

    @pytest.fixture
    def zmap(self, tmp_path: Path) -> Iterator[ZMap]:
        self.path = tmp_path / "data.zip"
        create_archive(str(self.path), self.form)
        zmap = LocalZipZMap(self.path, self.options)
        yield self.stack(zmap)
        zmap.close()

    def stack(self, zmap: ZMap) -> ZMap:
        return zmap

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        zmap.flush()
        return self.peek_unflushed(zmap, key)

    def peek_unflushed(self, zmap: ZMap, key: Key) -> bytes | None:
        with zipfile.ZipFile(self.path) as archive:
            name = f"{self.under}{key}"
            return archive.read(name) if name in archive.namelist() else None


class TestWritableZip(_WritableZip):
    pass


class TestWritableZipWithItsKeysAtTheRoot(_WritableZip):
    form = "root"
    under = ""


class TestWritableZipThatIsCopied(_WritableZip):
    options = LocalZipOptions(commit=Commit.COPY)


class TestPrefixedWritableZip(_WritableZip):
    under = "data/p/q/"

    def stack(self, zmap: ZMap) -> ZMap:
        zmap.write(Key("p/qx"), b"a neighbour")
        return Prefixed(zmap, Prefix("p/q"))
