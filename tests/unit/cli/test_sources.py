"""Where options stand, and which place wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from nczfs.cli import sources
from nczfs.cli.memory_limit import default_memory_limit
from nczfs.cli.options import OPTIONS
from nczfs.cli.sources import read_words, resolve, split_words
from nczfs.errors import UsageError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but those of the test."""
    monkeypatch.setattr(sources, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
        for variable, _ in option.fallbacks:
            monkeypatch.delenv(variable, raising=False)


def user_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "user/nczfs").mkdir(parents=True)
    (tmp_path / "user/nczfs/config.toml").write_text(text)


def test_a_list_of_words_is_split_at_commas_and_a_backslash_quotes() -> None:
    assert split_words(r"ro,prefix=a\,b,profile=c\\d,,x") == [
        "ro",
        "prefix=a,b",
        r"profile=c\d",
        "x",
    ]


def test_words_may_be_written_with_underscores_or_dashes() -> None:
    both = read_words(["allow_other,endpoint_url=http://h", "no-sign-request"])
    assert both.options == {
        "allow-other": "",
        "endpoint-url": "http://h",
        "no-sign-request": "",
    }


def test_words_of_fstab_are_understood_or_passed_over() -> None:
    words = read_words(
        ["ro,_netdev,nofail,user,x-systemd.automount,x-gvfs-hide,comment=hi,nosuid,nodev,noatime"]
    )
    assert words.options == {"read-only": "yes"}
    assert words.kernel == {"nosuid", "nodev", "noatime"}
    assert read_words(["rw"]).options == {"read-only": "no"}


def test_words_that_say_what_is_so_anyway_are_passed_over() -> None:
    words = read_words(
        ["relatime,nostrictatime,async,atime,symfollow,nomand,silent,default_permissions,noatime"]
    )
    assert words.kernel == {"noatime"}
    assert words.options == {}
    assert words.hints == []


def test_words_that_libfuse_does_not_take_are_said_to_have_no_effect() -> None:
    words = read_words(["nosymfollow,noatime,strictatime"])
    assert words.kernel == {"noatime"}
    assert words.options == {}
    assert words.hints == [
        "-o nosymfollow has no effect: a mount shows no symbolic links",
        "-o strictatime has no effect: reading changes no access time",
    ]


@pytest.mark.parametrize("sloppy", [False, True])
def test_a_mount_cannot_be_changed(sloppy: bool) -> None:
    with pytest.raises(UsageError, match=r"-o remount: .*unmount it and mount it again"):
        read_words(["remount,ro"], sloppy=sloppy)


def test_words_of_s3fs_are_understood_with_a_hint() -> None:
    words = read_words(["url=http://localhost:9000,use_path_request_style,public_bucket=1"])
    assert words.options == {
        "endpoint-url": "http://localhost:9000",
        "force-path-style": "",
        "no-sign-request": "1",
    }
    assert len(words.hints) == 3
    assert "-o url is an option of s3fs; nczfs calls it endpoint-url" in words.hints


def test_a_variable_of_the_environment_can_stand_in_fstab() -> None:
    assert read_words(["env.AWS_PROFILE=x"]).environment == {"AWS_PROFILE": "x"}


def test_an_unknown_word_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'alow_other'; did you mean allow-other"):
        read_words(["alow_other"])


def test_an_unknown_word_is_passed_over_when_mount_asks_for_it() -> None:
    assert read_words(["nonsense,ro"], sloppy=True).options == {"read-only": "yes"}


def test_a_word_without_its_value_is_refused() -> None:
    with pytest.raises(UsageError, match="-o region needs a value: region=NAME"):
        read_words(["region"])


def test_the_journal_is_a_word_with_or_without_a_value() -> None:
    for word, value in (("journal", "yes"), ("journal=fsync", "fsync"), ("journal=no", "no")):
        assert resolve({}, read_words([word]).options).text("journal") == value
    assert resolve({}, {}).text("journal") == "no"
    with pytest.raises(UsageError, match="'kill' is not one of yes, no, fsync"):
        resolve({}, read_words(["journal=kill"]).options)


def test_the_nearer_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve({}, {}).maybe_text("region") is None
    monkeypatch.setattr(sources, "SYSTEM_FILE", tmp_path / "system.toml")
    (tmp_path / "system.toml").write_text('region = "system"')
    assert resolve({}, {}).text("region") == "system"
    user_file(tmp_path, 'region = "user"')
    assert resolve({}, {}).text("region") == "user"
    (tmp_path / "own.toml").write_text('region = "own"')
    config = str(tmp_path / "own.toml")
    assert resolve({}, {}, config=config).text("region") == "own"
    monkeypatch.setenv("NCZFS_REGION", "environment")
    assert resolve({}, {}, config=config).text("region") == "environment"
    assert resolve({}, {"region": "word"}, config=config).text("region") == "word"
    assert resolve({"region": "option"}, {"region": "word"}).text("region") == "option"


def test_a_section_holds_for_the_urls_that_begin_so(tmp_path: Path) -> None:
    user_file(
        tmp_path,
        'region = "all"\n[source."s3://b"]\nregion = "bucket"\n'
        '[source."s3://b/deep"]\nmetadata_ttl = "5m"\nregion = "deep"\n',
    )
    assert resolve({}, {}, source="s3://other/x").text("region") == "all"
    assert resolve({}, {}, source="s3://b/x").text("region") == "bucket"
    deep = resolve({}, {}, source="s3://b/deep/x")
    assert deep.text("region") == "deep"
    assert deep.seconds("metadata-ttl") == 300.0


def test_numbers_flags_and_lists_of_toml_are_taken(tmp_path: Path) -> None:
    user_file(
        tmp_path,
        'memory-limit = 1048576\nallow-other = true\nviews = ["values.raw", "info.json"]\n',
    )
    settings = resolve({}, {})
    assert settings.maybe_number("memory-limit") == 1 << 20
    assert settings.flag("allow-other")
    assert settings.words("views") == frozenset({"values.raw", "info.json"})


def test_an_unknown_option_in_a_file_is_refused_with_the_file(tmp_path: Path) -> None:
    user_file(tmp_path, "regoin = 1")
    with pytest.raises(UsageError, match=r"config\.toml: no option is called 'regoin'; did you"):
        resolve({}, {})


def test_a_file_that_is_no_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    user_file(tmp_path, "region = ")
    with pytest.raises(UsageError, match=r"config\.toml: Invalid value"):
        resolve({}, {})


def test_a_missing_file_matters_only_if_it_was_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--config .*: no such file"):
        resolve({}, {}, config=str(tmp_path / "absent.toml"))


def test_a_wrong_value_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="-o metadata-ttl: 'soon' is not a time"):
        resolve({}, {"metadata-ttl": "soon"})
    monkeypatch.setenv("NCZFS_MEMORY_LIMIT", "much")
    with pytest.raises(UsageError, match="NCZFS_MEMORY_LIMIT: 'much' is not a size"):
        resolve({}, {})


def test_variables_that_gdal_reads_are_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "YES")
    monkeypatch.setenv("AWS_S3_ENDPOINT", "localhost:9000")
    monkeypatch.setenv("AWS_HTTPS", "NO")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTING", "FALSE")
    monkeypatch.setenv("AWS_REQUEST_PAYER", "requester")
    settings = resolve({}, {})
    assert settings.flag("no-sign-request")
    assert settings.text("endpoint-url") == "http://localhost:9000"
    assert settings.maybe_flag("force-path-style") is True
    assert settings.flag("requester-pays")
    monkeypatch.setenv("NCZFS_ENDPOINT_URL", "https://ours")
    assert resolve({}, {}).text("endpoint-url") == "https://ours"


def test_the_effective_set_can_be_written_as_json() -> None:
    settings = resolve({"views": frozenset({"b", "a"}), "metadata-ttl": float("inf")}, {})
    effective = settings.effective()
    assert effective["views"] == ["a", "b"]
    assert effective["metadata-ttl"] == "indefinite"
    assert effective["missing-chunks"] == "fill"
    assert "region" not in effective


def test_the_default_memory_limit_leaves_room_for_others() -> None:
    assert 64 << 20 <= default_memory_limit() <= 2 << 30


SECRET = "http://user:hush-hush@host:9000"


def test_an_endpoint_with_a_password_is_refused_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(where: str, words: dict[str, str] | None = None) -> None:
        with pytest.raises(UsageError, match=where) as caught:
            resolve({}, words or {})
        assert "hush" not in str(caught.value)

    refused("-o endpoint-url: an endpoint has no user name", {"endpoint-url": SECRET})
    with monkeypatch.context() as patch:
        patch.setenv("NCZFS_ENDPOINT_URL", SECRET)
        refused("NCZFS_ENDPOINT_URL: an endpoint has no user name")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_S3_ENDPOINT", SECRET.removeprefix("http://"))
        refused("AWS_S3_ENDPOINT: an endpoint has no user name")
    user_file(tmp_path, f'endpoint-url = "{SECRET}"')
    refused(r"config\.toml: endpoint-url: an endpoint has no user name")
