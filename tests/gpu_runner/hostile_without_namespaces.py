"""The same attempts where the host is not absent but forbidden: they open, where the others only look."""

from __future__ import annotations

from hostile_programs import ATTEMPTS, BY_HANDLE, OPENED

FORBIDDEN = "EACCES"
WITHOUT_NAMESPACES: dict[str, tuple[str, object]] = ATTEMPTS | {
    "reads the password file": (OPENED + "result = [opened(p) for p in ('/etc/passwd', '/etc/shadow')]", [FORBIDDEN] * 2),
    "lists the homes": ("result = [tried(os.listdir, p) for p in ('/', '/home', '/root')]", [FORBIDDEN] * 3),
    "reads the project": (
        OPENED + "result = [opened('{project}/manage.py'), tried(os.listdir, '{project}')]",
        [FORBIDDEN] * 2,
    ),
    "reads a file of the host's /tmp": (OPENED + "result = opened('{secret}')", FORBIDDEN),
    "reads variable data and services": (
        OPENED + "result = [p for p in ('/var', '/run', '/srv', '/boot', '/sys', '/tmp') if opened(p) == 'worked']",
        [],
    ),
    "opens disks and the hypervisor": (
        OPENED + "result = [p for p in ('/dev/vda', '/dev/sda', '/dev/mem', '/dev/kvm', '/dev/fuse') if opened(p) == 'worked']",
        [],
    ),
    "has only harmless devices": (
        OPENED + "result = [tried(os.listdir, '/dev'), *(opened(p) for p in ('/dev/ptmx', '/dev/console'))]",
        [FORBIDDEN] * 3,
    ),
    "searches every environment and command line for the worker's secret": (
        OPENED
        + """
pids = (1, os.getppid(), {victim})
kinds = ('environ', 'cmdline', 'maps')
result = [tried(os.listdir, '/proc'), *(p for p in pids for kind in kinds if opened(f'/proc/{p}/{kind}') == 'worked')]
""",
        [FORBIDDEN],
    ),
    "finds inherited descriptors": (
        """
kinds = []
for name in os.listdir('/proc/self/fd'):
    try:
        kinds.append(os.readlink(f'/proc/self/fd/{name}').split(':')[0])
    except OSError:
        pass
allowed = {'/dev/null', 'pipe', 'socket', '/memfd', f'/proc/{os.getpid()}/fd', 'anon_inode'}
result = [sorted(set(kinds) - allowed), kinds.count('socket')]
""",
        [[], 1],
    ),
    "calls a Unix socket of the host": (
        """
one, _ = socket.socketpair()
result = [tried(socket.socket, socket.AF_UNIX), tried(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM),
          tried(one.connect, '\\0{abstract}')]
""",
        ["EAFNOSUPPORT", "EAFNOSUPPORT", "EISCONN"],
    ),
    "signals a process outside": (
        "result = [tried(os.kill, p, 9) for p in ({victim}, os.getppid())] + [tried(syscall, 302, {victim}, 7, 0, 0)]",
        ["EPERM"] * 3,
    ),
    # The kernel says that it went well whether or not there was one that might be reached; the victim says the truth.
    "kills everything it can": ("tried(os.kill, -1, 9); result = tried(os.kill, 1, 9)", "EPERM"),
    "becomes root": (
        "result = [tried(os.setuid, 0), tried(os.setgid, 0), tried(os.setgroups, [0]), tried(os.chown, os.getcwd(), 0, 0)]",
        ["EPERM"] * 4,
    ),
    "asks what its first process may do": (
        OPENED + "result = [tried(resource.prlimit, os.getppid(), resource.RLIMIT_AS), opened(f'/proc/{os.getppid()}/mem')]",
        ["EPERM", FORBIDDEN],
    ),
    "goes to the host through another process": (
        OPENED + "pids, ways = (1, os.getppid(), {victim}), ('root', 'cwd', 'fd', 'mem', 'exe')\n"
        "result = [opened(f'/proc/{p}/{way}') for p in pids for way in ways]",
        [FORBIDDEN] * 15,
    ),
    "signals by thread, by handle and by group": (
        BY_HANDLE
        + """
result = [tried(syscall, 234, {victim}, {victim}, 9), tried(syscall, 200, {victim}, 9), tried(handle)]
""",
        ["EPERM"] * 3,
    ),
    "links to what it may not reach": (
        OPENED
        + """
mine = os.environ['TMPDIR']
os.symlink('/etc/shadow', mine + '/link')
os.symlink('{project}', mine + '/folder')
result = [opened(mine + '/link'), opened(mine + '/folder/manage.py'), tried(os.link, '/usr/bin/su', mine + '/su') != 'worked',
          tried(os.rename, '/usr/bin/su', mine + '/su') != 'worked']
os.unlink(mine + '/link'), os.unlink(mine + '/folder')
""",
        [FORBIDDEN, FORBIDDEN, True, True],
    ),
    "reads what is typed": (
        OPENED + "result = [tried(os.ttyname, 0), os.read(0, 1).decode(), opened('/dev/tty')]",
        ["ENOTTY", "", FORBIDDEN],
    ),
    "gives a file the rights of root": (
        """
path = os.environ['TMPDIR'] + '/strong'
open(path, 'w').close()
every = (0x02000001).to_bytes(4, 'little') + b'\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00' * 2
result = [tried(os.setxattr, path, 'security.capability', every), tried(os.chown, path, -1, 27), tried(os.chown, path, 0, -1)]
os.unlink(path)
""",
        ["EPERM"] * 3,
    ),
    # It can be read there: docs/sandbox.md says so.
    "learns the host's name": ("result = tried(syscall, 170, b'mine', 4)", "EPERM"),
    "changes the code of its own bootstrap": ("result = tried(open, '{project}/gpu_runner/child/main.py', 'a')", FORBIDDEN),
    "fills its scratch space": (
        """
try:
    with open(os.environ['TMPDIR'] + '/fill', 'wb', buffering=0) as file:
        while file.tell() < 1 << 30:
            file.write(bytes(1 << 20))
except OSError as error:
    result = errno.errorcode[error.errno], os.stat(file.name).st_size <= {tmp_bytes}
os.unlink(file.name)
""",
        ["EFBIG", True],
    ),
}
