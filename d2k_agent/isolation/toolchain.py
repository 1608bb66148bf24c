"""Which folders make up the toolchain: interpreter, torch, triton, numpy, compilers and the system's libraries.

Everything else stays out of sight: other installed packages, the rest of a checkout, homes, mounts, run folders.
"""

from __future__ import annotations

import glob
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence

_MODULES = (
    "torch torchgen functorch triton numpy nvidia cuda sympy mpmath networkx jinja2 markupsafe filelock fsspec "
    "typing_extensions setuptools pkg_resources _distutils_hack packaging psutil optree nvfuser pytorch_triton"
).split()
_SYSTEM = (
    "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt/nvidia /opt/cuda "
    "/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.preload /etc/alternatives /etc/localtime "
    "/etc/passwd /etc/group /etc/nsswitch.conf /etc/ssl /etc/bash.bashrc /etc/profile /etc/os-release /etc/OpenCL "
    "/etc/nvidia /sys/devices /sys/bus /sys/class /sys/module /sys/fs/cgroup "
    "/proc/cpuinfo /proc/meminfo /proc/stat /proc/version /proc/filesystems /proc/sys/vm /proc/sys/kernel/random"
).split()
_PACKAGE_FOLDERS = (
    "/usr/lib/python*/site-packages /usr/lib/python*/dist-packages /usr/lib64/python*/site-packages "
    "/usr/local/lib/python*/site-packages /usr/local/lib/python*/dist-packages /usr/local/lib64/python*/site-packages"
).split()


def toolchain_paths(extra_modules: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The running interpreter's toolchain as (readable subtrees, list-only folders), resolved and sorted.

    Of a folder of installed packages only the toolchain's own and `extra_modules` are readable. This package, its
    data and the checkout around it are not, wherever they lie.
    """
    modules = (*_MODULES, *extra_modules)
    packages = _package_folders()
    hidden = {*packages, *_own_folders()}
    read: set[str] = set()
    listed: set[str] = set()
    for tree in (*_SYSTEM, *_interpreter_trees()):
        _grant(tree, hidden, read, listed)
    for folder in packages:
        listed.add(folder)
        for path in _installed(folder, modules):
            _grant(path, hidden, read, listed)
    for path in _imported_from_elsewhere(modules):
        _grant(path, hidden, read, listed)
    return tuple(sorted(read)), tuple(sorted(listed - read))


def _grant(tree: str, hidden: Collection[str], read: set[str], listed: set[str]) -> None:
    """Make `tree` readable, going round what is hidden below it: Landlock knows no exceptions."""
    tree = os.path.realpath(tree)
    if tree in hidden or not os.path.exists(tree):
        return
    if not any(_inside(path, tree) for path in hidden):
        read.add(tree)
        return
    listed.add(tree)
    for name in os.listdir(tree):
        child = os.path.join(tree, name)
        if not os.path.islink(child):  # a link's target is granted where it lies, or not at all
            _grant(child, hidden, read, listed)


def _inside(path: str, tree: str) -> bool:
    return path.startswith(tree.rstrip("/") + "/")


def _package_folders() -> list[str]:
    """Folders of installed packages: on the path, in the interpreter's own tree, and the system's."""
    found = [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    for prefix in (sys.prefix, sys.base_prefix):
        for scheme in ("purelib", "platlib"):
            found.append(sysconfig.get_path(scheme, vars={"base": prefix, "platbase": prefix}))
    for pattern in _PACKAGE_FOLDERS:
        found += glob.glob(pattern)
    return sorted({os.path.realpath(folder) for folder in found if os.path.isdir(folder)})


def _own_folders() -> list[str]:
    """This package and, in a checkout, everything beside it (the task data, the guidance, the tests)."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    around = os.path.dirname(package)
    in_checkout = os.path.exists(os.path.join(around, "pyproject.toml"))
    return [around] if in_checkout else [package]


def _interpreter_trees() -> Iterator[str]:
    """The standard library and the programs of the base interpreter and of the virtual environment."""
    yield from (sys.executable, os.path.dirname(os.path.realpath(sys.executable)))
    yield sysconfig.get_path("stdlib")
    yield sysconfig.get_path("platstdlib")
    for prefix in {sys.prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield os.path.join(prefix, "pyvenv.cfg")
        yield os.path.join(prefix, "bin")
        yield os.path.join(prefix, "include")
        yield os.path.join(prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}")
        yield from glob.glob(os.path.join(prefix, "lib", "lib*.so*"))


def _installed(folder: str, modules: Iterable[str]) -> Iterator[str]:
    """What `folder` holds of `modules`: packages, single files, bundled libraries, metadata and NVIDIA's own."""
    wanted = {module.lower().replace("-", "_") for module in modules}
    for name in sorted(os.listdir(folder)):
        stem = name.lower().replace("-", "_").split(".")[0]
        distribution = name.lower().partition("-")[0] if name.endswith((".dist-info", ".egg-info")) else ""
        if stem in wanted or distribution in wanted or stem.startswith("nvidia"):
            yield os.path.join(folder, name)


def _imported_from_elsewhere(modules: Iterable[str]) -> Iterator[str]:
    """Where an editable or source installation of a module lies."""
    for module in modules:
        spec = _find(module)
        if spec is None:
            continue
        if spec.submodule_search_locations:
            yield from spec.submodule_search_locations
        elif spec.has_location and spec.origin:
            yield spec.origin


def _find(module: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except ValueError:
        return None  # a module put into sys.modules by hand has no specification
