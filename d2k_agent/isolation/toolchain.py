"""Which folders make up the toolchain: interpreter, torch, triton, numpy, compilers and the system's libraries.

Everything else stays out of sight: other installed packages, the rest of a checkout, homes, mounts, run folders.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import pwd
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

# fmt: off
_MODULES = (
    "torch", "torchgen", "functorch", "triton", "pytorch_triton", "numpy", "cuda", "nvfuser",
    # imported lazily by torch and triton
    "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec", "typing_extensions", "setuptools",
    "pkg_resources", "_distutils_hack", "packaging", "psutil", "optree",
)
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt/nvidia", "/opt/cuda",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives",
    "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ssl", "/etc/bash.bashrc",
    "/etc/profile", "/etc/os-release", "/etc/OpenCL", "/etc/nvidia",
    "/sys/devices", "/sys/bus", "/sys/class", "/sys/module", "/sys/fs/cgroup",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems", "/proc/sys/vm",
    "/proc/sys/kernel/random",
)
# fmt: on


@dataclass(frozen=True)
class Toolchain:
    """Folders and files that make up the toolchain (`trees`, as named, perhaps through links), less what lies at
    `hidden` (resolved). A tree may lie below a hidden folder: it is visible all the same. `programs` are the folders
    of compilers outside the system's own, for a PATH.
    """

    trees: tuple[Path, ...]
    hidden: tuple[Path, ...]
    programs: tuple[Path, ...]


def find_toolchain(extra_modules: Sequence[str] = ()) -> Toolchain:
    """The running interpreter's toolchain.

    Of a folder of installed packages only the toolchain's own and `extra_modules` are in it. This package, its data
    and the checkout around it are not, wherever they lie.
    """
    modules = (*_MODULES, *extra_modules)
    packages = _package_folders()
    programs = _compiler_folders()
    trees = [*map(Path, _SYSTEM), *_interpreter_trees(), *_imported_from_elsewhere(modules)]
    trees += [tree for folder in programs for tree in _compiler_trees(folder)]
    on_path = {Path(entry).resolve() for entry in sys.path if entry}
    for folder in on_path.intersection(packages):
        trees += _installed(folder, modules)
    existing = dict.fromkeys(tree for tree in trees if tree.exists())
    return Toolchain(tuple(existing), (*packages, _own_folder()), programs)


def toolchain_paths(extra_modules: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The toolchain as Landlock takes it: (readable subtrees, list-only folders), resolved and sorted."""
    toolchain = find_toolchain(extra_modules)
    read: set[Path] = set()
    listed = {folder for folder in toolchain.hidden if folder.name.endswith("-packages")}
    for tree in toolchain.trees:
        _grant(tree, toolchain.hidden, read, listed)
    return tuple(sorted(map(str, read))), tuple(sorted(map(str, listed - read)))


def _grant(tree: Path, hidden: Collection[Path], read: set[Path], listed: set[Path]) -> None:
    """Make `tree` readable, going round what is hidden below it: Landlock knows no exceptions."""
    tree = tree.resolve()
    if tree in hidden or not tree.exists():
        return
    if not any(path.is_relative_to(tree) for path in hidden):
        read.add(tree)
        return
    listed.add(tree)
    for child in tree.iterdir():
        if not child.is_symlink():  # a link's target is granted where it lies, or not at all
            _grant(child, hidden, read, listed)


def _package_folders() -> list[Path]:
    """Folders of installed packages: on the path, in the interpreter's own tree, and the system's."""
    found = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    for prefix in (sys.prefix, sys.base_prefix):
        for scheme in ("purelib", "platlib"):
            found.append(Path(sysconfig.get_path(scheme, vars={"base": prefix, "platbase": prefix})))
    for libraries in ("lib", "lib64", "local/lib", "local/lib64"):
        found += Path("/usr", libraries).glob("python*/*-packages")
    return sorted({folder.resolve() for folder in found if folder.is_dir()})


def _own_folder() -> Path:
    """This package or, in a checkout, the checkout: with the task data, the guidance and the tests."""
    package = Path(__file__).resolve().parent.parent
    return package.parent if (package.parent / "pyproject.toml").exists() else package


def _interpreter_trees() -> Iterator[Path]:
    """The standard library and the programs of the base interpreter and of the virtual environment."""
    yield Path(sys.executable)
    yield Path(sys.executable).resolve().parent
    yield Path(sysconfig.get_path("stdlib"))
    yield Path(sysconfig.get_path("platstdlib"))
    for prefix in {Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix)}:
        yield prefix / "pyvenv.cfg"
        yield prefix / "bin"
        yield prefix / "include"
        yield prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        yield from (prefix / "lib").glob("lib*.so*")


def _compiler_folders() -> tuple[Path, ...]:
    """Where this process finds compilers outside the system's folders (a machine may keep them below /opt).

    Not in a home or in the checkout: a link to gcc in ~/bin would make ~/lib and ~/include readable.
    """
    found: dict[Path, None] = {}
    for folder in map(Path, os.get_exec_path()):
        for program in (folder / name for name in ("cc", "gcc", "g++", "clang", "nvcc")):
            if os.access(program, os.X_OK):
                found.update({folder.absolute(): None, program.resolve().parent: None})
    elsewhere = (Path("/usr"), _own_folder(), *_homes())
    return tuple(
        folder
        for folder in found
        if not any(place.is_relative_to(other) for place in (folder, folder.resolve()) for other in elsewhere)
    )


def _homes() -> set[Path]:
    """Where people keep their own files: the usual folder, and the homes of root and this user."""
    homes = {Path("/home")}
    for user in (0, os.getuid()):
        with contextlib.suppress(KeyError):  # a container may run as a user whom the system does not know
            homes.add(Path(pwd.getpwuid(user).pw_dir))
    return {place for home in homes for place in (home, home.resolve())} - {Path("/")}


def _compiler_trees(folder: Path) -> Iterator[Path]:
    """What a compiler in `folder` brings along; not all of its prefix, which may be somebody's home."""
    yield folder
    for name in ("lib", "lib64", "libexec", "include", "nvvm", "targets"):
        yield folder.parent / name
    yield from folder.parent.glob("*-linux-gnu")


def _installed(folder: Path, modules: Iterable[str]) -> Iterator[Path]:
    """What `folder` holds of `modules`: packages, single files, bundled libraries, metadata and NVIDIA's own."""
    wanted = {module.lower().replace("-", "_") for module in modules}
    for path in sorted(folder.iterdir()):
        stem = path.name.lower().replace("-", "_").split(".")[0]
        distribution = path.name.lower().partition("-")[0] if path.suffix in (".dist-info", ".egg-info") else ""
        if stem in wanted or distribution in wanted or stem.startswith("nvidia"):
            yield path


def _imported_from_elsewhere(modules: Iterable[str]) -> Iterator[Path]:
    """Where an editable or source installation of a module lies."""
    for module in modules:
        spec = _find(module)
        if spec is None:
            continue
        if spec.submodule_search_locations:
            yield from map(Path, spec.submodule_search_locations)
        elif spec.has_location and spec.origin:
            yield Path(spec.origin)


def _find(module: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except ValueError:
        return None  # a module put into sys.modules by hand has no specification
