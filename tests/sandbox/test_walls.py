"""What a command cannot reach, under either class."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from d2k_agent.errors import MachineError
from d2k_agent.sandbox import Isolation, ResourceLimits, Sandbox, probe
from tests.sandbox.boxes import WALLS, text, unavailable


def bash(box: Sandbox, command: str) -> str:
    completed = box.run(["/bin/bash", "-c", command], limit_s=30, output_bytes=20_000)
    return text(completed.stdout)


def python(box: Sandbox, program: str, *arguments: str) -> str:
    completed = box.run(["python3", "-c", program, *arguments], limit_s=30, output_bytes=20_000)
    return text(completed.stdout) + text(completed.stderr)


def test_the_strongest_class_that_works_is_found() -> None:
    found = probe()
    working = [kind for kind in WALLS if not unavailable(kind)]
    assert found.kind == (working[0] if working else "none")
    assert found.details["compiler"]


def test_without_isolation_nothing_runs_unless_that_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="--unsafe-no-sandbox"):
        Sandbox(Isolation("none"), tmp_path)
    box = Sandbox(Isolation("none"), tmp_path, unsafe_no_sandbox=True)
    assert bash(box, "echo x; pwd") == f"x\n{tmp_path.resolve()}\n"


def test_the_toolchain_is_there(box: Sandbox) -> None:
    program = "import numpy, ssl, ctypes, sqlite3, subprocess; print(numpy.arange(3).sum())"
    assert python(box, program) == "3\n"
    assert bash(box, "echo 'int main(){return 7;}' > a.c && cc a.c -o a && ./a; echo $?") == "7\n"


KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def double(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)
x, y = torch.arange(100.0), torch.empty(100)
double[(4,)](x, y, 100, 32)
print((y == 2 * x).all().item())
"""


def test_a_triton_kernel_runs_interpreted(box: Sandbox) -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed here")
    (box.workspace / "kernel.py").write_text(KERNEL)
    completed = box.run(["python3", "kernel.py"], env={"TRITON_INTERPRET": "1"}, limit_s=120, output_bytes=5000)
    assert text(completed.stdout) == "True\n", text(completed.stderr)


def test_packages_beside_the_toolchain_are_as_good_as_not_installed(box: Sandbox) -> None:
    program = """
import importlib.util
for name in ("pytest", "pydantic", "litellm", "d2k_agent"):
    assert importlib.util.find_spec(name) is None, name
    try:
        __import__(name)
    except ImportError:
        print(name)
"""
    assert python(box, program) == "pytest\npydantic\nlitellm\nd2k_agent\n"


def test_a_command_that_is_not_there_says_so(box: Sandbox) -> None:
    with pytest.raises(MachineError, match="no_such_program"):
        box.run(["no_such_program"], limit_s=20, output_bytes=1000)


@pytest.mark.parametrize(
    "outside",
    [
        "../secret",
        "../other/ws/solution.py",
        "../events.jsonl",
        "/etc/shadow",
        pytest.param(str(Path.home() / ".netrc"), id="netrc"),
        pytest.param(f"/proc/{os.getpid()}/environ", id="environment of this process"),
    ],
)
def test_nothing_outside_the_workspace_can_be_read(box: Sandbox, outside: str) -> None:
    run = box.workspace.parent
    (run / "other" / "ws").mkdir(parents=True)
    for name in ("secret", "events.jsonl", "other/ws/solution.py"):
        (run / name).write_text("CANARY")
    (box.workspace / "link").symlink_to(run / "secret")
    assert bash(box, f"cat {outside} link; ls {run}/other; grep -rs CANARY {run} {run}/..") == ""


@pytest.mark.parametrize("folder", ["..", "/tmp", "/dev/shm", "/var/tmp", "/usr/local", "/etc", "/run"])
def test_nothing_outside_the_workspace_can_be_written(box: Sandbox, folder: str) -> None:
    name = f"d2k-{uuid.uuid4().hex}"
    bash(box, f"echo x > {folder}/{name}; mkdir {folder}/{name}-folder")
    real = (box.workspace / folder).resolve()
    assert not (real / name).exists()
    assert not (real / f"{name}-folder").exists()


def test_files_outside_keep_their_permissions_and_times(box: Sandbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("under Landlock alone a user's own files can be given other permissions; root has read-only mounts")
    outside = box.workspace.parent / "file"
    outside.write_text("x")
    outside.chmod(0o644)
    before = outside.stat()
    bash(box, f"chmod 777 {outside}; touch -d 2001-01-01 {outside}; chown 1:1 {outside}; truncate -s 0 {outside}")
    assert outside.stat() == before


def test_temporary_files_have_a_place_and_do_not_last(box: Sandbox) -> None:
    before = bash(box, 'ls -A "$TMPDIR"')  # under bubblewrap, the places where folders of the toolchain are mounted
    assert bash(box, 'mktemp >/dev/null && echo x > "$TMPDIR/kept" && cat "$TMPDIR/kept"') == "x\n"
    assert bash(box, 'ls -A "$TMPDIR"') == before
    assert list(box.workspace.iterdir()) == []


def test_a_temporary_folder_made_hostile_is_replaced(box: Sandbox) -> None:
    (box.workspace.parent / "precious").mkdir()
    (box.workspace.parent / "precious" / "file").touch()
    (box.workspace / ".tmp").symlink_to(box.workspace.parent / "precious")
    assert bash(box, 'echo x > "$TMPDIR/a"; cat "$TMPDIR/a"') == "x\n"
    assert [path.name for path in (box.workspace.parent / "precious").iterdir()] == ["file"]


NETWORK = """
import socket, sys
for family, kind in [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                     (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_NETLINK, socket.SOCK_RAW),
                     (socket.AF_PACKET, socket.SOCK_RAW), (40, socket.SOCK_STREAM)]:
    try:
        socket.socket(family, kind)
        print("opened", family)
    except OSError:
        pass
socket.socketpair()
print("pair")
"""


def test_there_is_no_network(box: Sandbox) -> None:
    assert python(box, NETWORK) == "pair\n"


UNIX = """
import socket, sys
for address in (sys.argv[1], "\\0" + sys.argv[2]):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(address)
            print("connected")
        except OSError:
            pass
        try:
            socket.socketpair(type=kind)[0].sendto(b"x", address)
            print("sent")
        except OSError:
            pass
"""


def test_sockets_of_other_processes_cannot_be_reached(box: Sandbox, tmp_path: Path) -> None:
    name = f"d2k-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        stream.bind(str(tmp_path / "daemon"))
        stream.listen()
        datagram.bind("\0" + name)
        assert python(box, UNIX, str(tmp_path / "daemon"), name) == ""


PRIVILEGES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
left = [c for c in range(41) if libc.prctl(23, c, 0, 0, 0) == 1]
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
libc.capget(header, data)
print("capabilities", any(data), "bounding", bool(left), "nnp", libc.prctl(39, 0, 0, 0, 0))
for name, call in {
    "ptrace": lambda: libc.ptrace(16, os.getppid(), 0, 0),
    "user namespace": lambda: libc.unshare(0x10000000),
    "mount": lambda: libc.mount(b"none", b".", b"tmpfs", 0, None),
    "chroot": lambda: libc.chroot(b"."),
    "io_uring": lambda: libc.syscall(425, 8, ctypes.create_string_buffer(120)),
    "keyring": lambda: libc.syscall(250 if os.uname().machine == "x86_64" else 219, 0, -3, 1),
    "mknod": lambda: libc.mknod(b"disk", 0o60600, os.makedev(8, 0)),
    "limits of the parent": lambda: libc.prlimit(os.getppid(), 7, None, (ctypes.c_ulong * 2)()),
}.items():
    if call() >= 0:
        print("allowed:", name)
"""


def test_no_privilege_is_left(box: Sandbox) -> None:
    assert python(box, PRIVILEGES) == "capabilities False bounding False nnp 1\n"


def test_the_environment_is_a_short_fixed_list(box: Sandbox) -> None:
    names = {line.partition("=")[0] for line in bash(box, "env").splitlines()}
    assert names - {"PYTHONPATH"} == {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "PWD", "SHLVL", "_"}
    given = box.run(["env"], env={"EXTRA": "1"}, limit_s=20, output_bytes=5000)
    assert "EXTRA=1" in text(given.stdout)


def test_no_descriptor_of_ours_is_open(box: Sandbox) -> None:
    program = "import os\nfor fd in range(3, 200):\n  try: os.fstat(fd); print('open', fd)\n  except OSError: pass"
    assert python(box, program) == ""


@pytest.mark.parametrize("wall", ["landlock"])
def test_the_supervisor_of_a_command_is_closed_to_it(box: Sandbox) -> None:
    command = "for f in environ mem maps fd/0 cwd/x root/etc/passwd; do cat /proc/$PPID/$f; done"
    assert bash(box, command) == ""


def test_one_process_and_one_file_are_bounded(tmp_path: Path, wall: str) -> None:
    limits = ResourceLimits(memory_bytes=1 << 30, file_bytes=1 << 20)
    box = Sandbox(Isolation(wall), tmp_path, limits=limits)
    assert "MemoryError" in python(box, "x = bytearray(2 << 30)")
    bash(box, "head -c 3000000 /dev/zero > big")
    assert (tmp_path / "big").stat().st_size == 1 << 20


def test_a_symbolic_link_to_the_interpreter_works(wall: str, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
    (tmp_path / "ws").mkdir()
    program = (
        "import sys; from pathlib import Path; from d2k_agent.sandbox import *; "
        f"box = Sandbox(Isolation({wall!r}), Path(sys.argv[1])); "
        "argv = ['python3', '-c', 'import json, sys; print(sys.prefix)']; "
        "print(box.run(argv, limit_s=30, output_bytes=999).stdout.head)"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [str(folder / "bin" / "python"), "-c", program, str(tmp_path / "ws")]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(f"{folder}\n".encode())


UNPRIVILEGED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from d2k_agent.sandbox import Isolation, Sandbox
os.setgid(65534); os.setgroups([]); os.setuid(65534)
box = Sandbox(Isolation(sys.argv[2]), Path(sys.argv[1], "ws"))
command = "id -u; echo x > a; cat a; cat ../secret; sleep 300 & python3 -c 'import socket; socket.socket()'"
done = box.run(["bash", "-c", command], limit_s=30, output_bytes=5000)
print(done.stdout.head.decode(), done.returncode, "secret" in done.stderr.head.decode())
"""


def test_it_works_the_same_without_being_root(wall: str) -> None:
    python3 = "/usr/bin/python3"
    version = "import sys; sys.exit(sys.version_info < (3, 11))"
    if os.geteuid() != 0 or subprocess.run([python3, "-c", version], check=False).returncode != 0:
        pytest.skip("needs root, to become another user, and a Python that this user may read")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        shutil.copytree(Path(__file__).parents[2] / "d2k_agent", Path(folder) / "d2k_agent")
        (Path(folder) / "ws").mkdir()
        (Path(folder) / "secret").write_text("CANARY")
        for path in (Path(folder), Path(folder) / "ws"):
            path.chmod(0o777)
        argv = [python3, "-B", "-c", UNPRIVILEGED, folder, wall]
        done = subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout == "65534\nx\n 1 True\n", done.stderr
