"""Object code on disk: only whole files of the user's own are taken, and no failure is an error."""

import concurrent.futures
import dataclasses
import errno
import os
import pathlib
import stat
import warnings

import pytest

from restride.targets import jit, object_store, store
from restride.targets.isa import Isa, host_isa
from restride.targets.store import ObjectStore, object_key

KEY = "ab" * 32
OTHER = "cd" * 32
DATA = bytes(range(256)) * 20

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX modes and links")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache" / "restride"


@pytest.fixture
def filled(folder):
    ObjectStore(folder).put(KEY, DATA)
    return folder / f"{KEY}.o"


def test_what_was_put_is_got(folder):
    kept = ObjectStore(folder)
    assert kept.get(KEY) is None
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA
    assert ObjectStore(folder).get(KEY) == DATA
    assert kept.get(OTHER) is None


def test_putting_again_replaces(folder):
    kept = ObjectStore(folder)
    kept.put(KEY, DATA)
    kept.put(KEY, DATA[::-1])
    assert kept.get(KEY) == DATA[::-1]
    assert os.listdir(folder) == [f"{KEY}.o"]


@posix
def test_folder_and_files_are_the_users_alone(filled):
    assert stat.S_IMODE(filled.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600


def test_no_folder_turns_it_off(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    off = ObjectStore(None)
    off.put(KEY, DATA)
    assert off.get(KEY) is None
    assert (off.info().enabled, off.info().path) == (False, "")
    assert not list(tmp_path.iterdir())


def _damage_cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def _damage_flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _damage_empty(path):
    path.write_bytes(b"")


def _damage_header_only(path):
    path.write_bytes(path.read_bytes()[:40])


def _damage_version(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"restride object\x01", b"restride object\x02"))


def _damage_text(path):
    path.write_text("not machine code at all\n" * 100)


def _damage_append(path):
    path.write_bytes(path.read_bytes() + b"\x00")


def _damage_other_key(path):
    ObjectStore(path.parent).put(OTHER, DATA)
    os.replace(path.parent / f"{OTHER}.o", path)


def _damage_link(path):
    target = path.parent / "elsewhere"
    os.replace(path, target)
    path.symlink_to(target)


def _damage_dangling_link(path):
    path.unlink()
    path.symlink_to("/nonexistent/file")


def _damage_group_writable(path):
    path.chmod(0o620)


def _damage_world_writable(path):
    path.chmod(0o602)


def _damage_fifo(path):
    path.unlink()
    os.mkfifo(path)


def _damage_folder_in_its_place(path):
    path.unlink()
    path.mkdir()


DAMAGES = [value for name, value in sorted(globals().items()) if name.startswith("_damage_")]


@posix
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_bad_entry_is_ignored_with_one_warning(filled, damage):
    damage(filled)
    kept = ObjectStore(filled.parent)
    with pytest.warns(RuntimeWarning, match=f"entry {KEY[:12]} is .*compiled again"):
        assert kept.get(KEY) is None
    assert kept.get(KEY) is None


@posix
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_bad_entry_is_replaced_by_the_next_put(filled, damage):
    damage(filled)
    kept = ObjectStore(filled.parent)
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA
    assert stat.S_ISREG(filled.lstat().st_mode)


@posix
def test_a_full_folder_in_place_of_an_entry_is_left_alone_and_the_store_goes_on(filled):
    filled.unlink()
    filled.mkdir()
    (filled / "mine").write_text("keep me")
    kept = ObjectStore(filled.parent)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert kept.get(KEY) is None
            kept.put(KEY, DATA)
        kept.put(OTHER, DATA)
        assert kept.get(OTHER) == DATA
    assert [str(warning.message).split(": ")[1][:18] for warning in caught] == [f"entry {KEY[:12]}"]
    assert (filled / "mine").read_text() == "keep me"
    assert sorted(os.listdir(filled.parent)) == sorted([filled.name, f"{OTHER}.o"])


@posix
def test_warnings_point_at_the_callers_own_line(filled):
    filled.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="damaged") as caught:
        ObjectStore(filled.parent).get(KEY)
    assert caught[0].filename == __file__


@posix
def test_an_entry_of_another_user_is_refused(filled, monkeypatch):
    real = os.fstat

    def fstat(handle):
        status = real(handle)
        if not stat.S_ISREG(status.st_mode):
            return status
        fields = list(status[:10])
        fields[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.warns(RuntimeWarning, match="another user"):
        assert ObjectStore(filled.parent).get(KEY) is None


@posix
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777, 0o1777, 0o770])
def test_a_folder_open_to_others_is_not_used(filled, mode):
    filled.parent.chmod(mode)
    kept = ObjectStore(filled.parent)
    with pytest.warns(RuntimeWarning, match="chmod 700"):
        assert kept.get(KEY) is None
    kept.put(OTHER, DATA)
    assert kept.get(OTHER) is None
    assert not (filled.parent / f"{OTHER}.o").exists()
    assert not kept.info().enabled
    assert "0700" in kept.info().why


@posix
def test_a_folder_of_another_user_is_not_used(filled, monkeypatch):
    if os.geteuid() == 0:
        os.chown(filled.parent, 4321, -1)  # root's own would be trusted
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(RuntimeWarning, match="another user"):
        assert ObjectStore(filled.parent).get(KEY) is None


def test_a_file_in_place_of_the_folder_is_not_used(tmp_path):
    (tmp_path / "file").write_text("mine")
    kept = ObjectStore(tmp_path / "file")
    assert kept.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="new kernels are not kept"):
        kept.put(KEY, DATA)
    kept.put(KEY, DATA)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_a_full_or_read_only_disk_is_no_error(folder, monkeypatch, code):
    ObjectStore(folder).put(OTHER, DATA)

    def refuse(*arguments):
        raise OSError(code, os.strerror(code))

    kept = ObjectStore(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.warns(RuntimeWarning, match="new kernels are not kept"):
            kept.put(KEY, DATA)
        kept.put(KEY, DATA)
    assert kept.get(KEY) is None
    assert kept.get(OTHER) == DATA
    assert os.listdir(folder) == [f"{OTHER}.o"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    kept = ObjectStore(tmp_path / "a" / "b")
    assert kept.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        kept.put(KEY, DATA)


def test_an_interrupted_write_leaves_nothing(folder, monkeypatch):
    def interrupt(handle, data):
        raise KeyboardInterrupt

    kept = ObjectStore(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kept.put(KEY, DATA)
    assert os.listdir(folder) == []
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA


def test_short_writes_are_completed(folder, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data[:100])))
    kept = ObjectStore(folder)
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA


def test_a_folder_removed_meanwhile_is_made_again(filled):
    kept = ObjectStore(filled.parent)
    assert kept.get(KEY) == DATA
    filled.unlink()
    filled.parent.rmdir()
    assert kept.get(KEY) is None
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA


def test_an_oversized_object_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(object_store, "_LARGEST_BYTES", 1000)
    kept = ObjectStore(folder)
    kept.put(KEY, bytes(1001))
    assert kept.get(KEY) is None


def _keys(count):
    return [f"{index:064x}" for index in range(0x10, 0x10 + count)]


def test_pruning_removes_the_oldest_until_three_quarters_are_left(folder):
    kept = ObjectStore(folder, limit_bytes=40_960)
    for age, key in enumerate(_keys(11)):
        kept.put(key, DATA[:100])
        os.utime(folder / f"{key}.o", (age, age))
    left = 40_960 * 3 // 4 // 4096
    assert sorted(os.listdir(folder)) == sorted(f"{key}.o" for key in _keys(11)[-left:])


def test_pruning_keeps_what_is_within_the_limit_and_what_is_not_ours(folder):
    kept = ObjectStore(folder)
    for key in _keys(5):
        kept.put(key, DATA)
    (folder / "notes.txt").write_text("mine")
    assert kept.prune() == 0
    assert len(os.listdir(folder)) == 6


def test_half_written_files_are_removed_when_old(folder):
    kept = ObjectStore(folder)
    kept.put(KEY, DATA)
    (folder / ".old.tmp").write_bytes(b"x")
    (folder / ".new.tmp").write_bytes(b"x")
    os.utime(folder / ".old.tmp", (0, 0))
    assert kept.prune() == 1
    assert sorted(os.listdir(folder)) == [".new.tmp", f"{KEY}.o"]


def test_use_keeps_an_entry_young(filled):
    os.utime(filled, (0, 0))
    assert ObjectStore(filled.parent).get(KEY) == DATA
    assert filled.stat().st_mtime > 1e9


def test_info_counts_entries_and_bytes(folder):
    kept = ObjectStore(folder)
    assert kept.info() == store.StoreInfo(str(folder), True, "", 0, 0)
    assert not folder.exists()
    kept.put(KEY, DATA)
    kept.put(OTHER, DATA)
    info = kept.info()
    assert (info.enabled, info.entries) == (True, 2)
    assert info.bytes >= 2 * len(DATA)


def test_many_threads_share_a_store(folder):
    kept = ObjectStore(folder)

    def work(index):
        key = f"{index % 7 + 0x1000:064x}"
        kept.put(key, DATA + bytes([index % 7]))
        return kept.get(key) == DATA + bytes([index % 7])

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(200)))
    assert len(os.listdir(folder)) == 7


def test_key_depends_on_all_that_the_code_depends_on(monkeypatch):
    isa = Isa.for_name("avx2")
    keys = {object_key("text", isa), object_key("texT", isa), object_key("text", Isa.for_name("sse41"))}
    for field in ("triple", "cpu", "features"):
        keys.add(object_key("text", dataclasses.replace(isa, **{field: "other"})))
    # The same characters, cut elsewhere.
    keys.add(object_key("xtext", dataclasses.replace(isa, features="a")))
    keys.add(object_key("text", dataclasses.replace(isa, features="ax")))
    monkeypatch.setattr(store, "_versions", lambda: ("another version",))
    keys.add(object_key("text", isa))
    assert len(keys) == 9
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in keys)


def test_key_is_the_same_again():
    assert object_key("text", host_isa()) == object_key("text", host_isa())


def test_empty_setting_turns_it_off(monkeypatch):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", "")
    assert "RESTRIDE_CACHE_DIR" in store.default_store().info().why


def test_setting_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "mine"))
    assert store.default_store().info().path == str(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", "~/kernels")
    assert store.default_store().info().path == str(tmp_path / "kernels")


@posix
def test_default_folder_is_xdgs_or_in_the_home(monkeypatch, tmp_path):
    for prefix in ("RESTRIDE", "ONEDNN", "DNNL"):
        monkeypatch.delenv(f"{prefix}_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.default_store().info().path == str(tmp_path / "xdg" / "restride")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert store.default_store().info().path == str(tmp_path / ".cache" / "restride")
    assert store.default_store() is store.default_store()


def test_object_code_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    text = "define i32 @f() {\n  ret i32 3\n}\n"
    first = store.object_code(text, host_isa())
    monkeypatch.setattr(jit, "compile_ir", lambda *_: pytest.fail("compiled twice"))
    assert store.object_code(text, host_isa()) == first


def test_a_damaged_entry_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    text = "define i32 @f() {\n  ret i32 4\n}\n"
    first = store.object_code(text, host_isa())
    (entry,) = (tmp_path / "cache").iterdir()
    _damage_flip(entry)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert store.object_code(text, host_isa()) == first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.object_code(text, host_isa()) == first


def test_without_dir_fd_the_same_promises_hold(monkeypatch, folder):
    monkeypatch.setattr(object_store, "_RELATIVE", False)
    kept = ObjectStore(folder)
    kept.put(KEY, DATA)
    assert kept.get(KEY) == DATA
    assert kept.info().entries == 1
    _damage_flip(pathlib.Path(folder, f"{KEY}.o"))
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert kept.get(KEY) is None
    assert kept.prune() == 0


@posix
@pytest.mark.parametrize(("mode", "why"), [(0o755, ""), (0o700, ""), (0o775, "write"), (0o757, "write")])
def test_a_folder_of_root_is_used_where_others_cannot_write(monkeypatch, tmp_path, mode, why):
    fields = list(tmp_path.stat())
    fields[stat.ST_UID], fields[stat.ST_MODE] = 0, stat.S_IFDIR | mode
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    if why:
        with pytest.raises(object_store._Unusable, match=why):
            object_store._check_private("cache", os.stat_result(fields))
    else:
        object_store._check_private("cache", os.stat_result(fields))


@posix
@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_nothing_is_kept(monkeypatch, home):
    for prefix in ("RESTRIDE", "ONEDNN", "DNNL"):
        monkeypatch.delenv(f"{prefix}_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    object_store._store_for.cache_clear()
    with pytest.warns(RuntimeWarning, match="no home folder"):
        assert not store.default_store().info().enabled
