"""Programs that try to break out of the sandbox. Each leaves what it achieved in `result`.

`ATTEMPTS` may share one sandbox: nothing in them ends it. Each value is the program and what `result` must be when it was
stopped. In `{braces}` stand facts of the host that the test fills in. `WITHOUT_NAMESPACES` has the same attempts where the host
is not absent but forbidden: it opens, where the others only look.
"""

_HELPERS = '''
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, stat, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    """What came of it: the name of the error, or "worked"."""
    try:
        value = call(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "worked"
def syscall(*arguments):
    if libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]) == -1:
        raise OSError(ctypes.get_errno(), "refused")
'''


def program(body: str) -> str:
    return _HELPERS + body


ABSENT = "ENOENT"
ATTEMPTS: dict[str, tuple[str, object]] = {
    "reads the password file": ("result = [tried(os.stat, p) for p in ('/etc/passwd', '/etc/shadow')]", [ABSENT] * 2),
    "lists the homes": ("result = [tried(os.listdir, p) for p in ('/home', '/root/.ssh', '{home}/.cache')]", [ABSENT] * 3),
    "reads the project": ("result = [tried(os.stat, p) for p in ('{project}/manage.py', '{project}/.git')]", [ABSENT] * 2),
    "reads a file of the host's /tmp": ("result = tried(os.stat, '{secret}')", ABSENT),
    "reads variable data and services": (
        "result = [tried(os.stat, p) for p in ('/var', '/run/docker.sock', '/var/run', '/srv', '/boot', '/sys')]",
        [ABSENT] * 6,
    ),
    "opens disks and the hypervisor": (
        "result = [tried(os.stat, p) for p in ('/dev/vda', '/dev/sda', '/dev/mem', '/dev/kvm', '/dev/fuse', '/dev/vsock')]",
        [ABSENT] * 6,
    ),
    "has only harmless devices": (
        "result = sorted(set(os.listdir('/dev')) - {'core','fd','full','null','ptmx','pts','random','shm','stderr','stdin',"
        "'stdout','tty','urandom','zero','console'})",
        [],
    ),
    "searches every environment and command line for the worker's secret": (
        """
found = []
for name in filter(str.isdigit, os.listdir('/proc')):
    for kind in ('environ', 'cmdline'):
        try:
            text = open(f'/proc/{name}/{kind}', 'rb').read()
        except OSError:
            continue
        if b'{canary}' in text or b'{project}/gpu_runner' in text:
            found.append((name, kind))
result = found
""",
        [],
    ),
    "finds secrets in its own environment": (
        "result = sorted(set(os.environ) - {'PATH','HOME','TMPDIR','USER','LANG','OMP_NUM_THREADS','MKL_NUM_THREADS',"
        "'LD_LIBRARY_PATH','PWD','LC_CTYPE'})",
        [],
    ),
    "finds inherited descriptors": (
        """
def kinds(pid):
    found = []
    for name in os.listdir(f'/proc/{pid}/fd'):
        try:
            found.append(os.readlink(f'/proc/{pid}/fd/{name}').split(':')[0])
        except OSError:
            pass
    return found
allowed = {'/dev/null', 'pipe', 'socket', '/memfd', f'/proc/{os.getpid()}/fd', 'anon_inode'}
result = [sorted(set(kinds('self')) - allowed), kinds('self').count('socket'), kinds(1).count('socket')]
""",
        [[], 1, 0],
    ),
    "connects to a port of the host": (
        """
address = ('127.0.0.1', {port})
result = [tried(socket.create_connection, address, 1), tried(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)]
""",
        ["EAFNOSUPPORT"] * 2,
    ),
    "opens sockets of other families": (
        """
raw = (socket.AF_NETLINK, socket.AF_PACKET)
bluetooth = 31
families = (socket.AF_INET6, *raw, socket.AF_VSOCK, socket.AF_ALG, bluetooth)
result = [tried(socket.socket, f, socket.SOCK_RAW if f in raw else socket.SOCK_STREAM) for f in families]
""",
        ["EAFNOSUPPORT"] * 6,
    ),
    "makes a pair of network sockets": ("result = tried(syscall, 53, 2, 1, 0, (ctypes.c_int * 2)())", "EAFNOSUPPORT"),
    "calls a Unix socket of the host": (
        "s = socket.socket(socket.AF_UNIX); result = tried(s.connect, '\\0{abstract}')",
        "ECONNREFUSED",
    ),
    "lists network interfaces": ("result = tried(socket.if_nameindex)", "EAFNOSUPPORT"),
    "signals a process outside": ("result = tried(os.kill, {victim}, 9)", "ESRCH"),
    "kills everything it can": (
        "result = [tried(os.kill, -1, 9), tried(os.kill, 1, 9), os.path.exists('/proc/1')]",
        ["ESRCH", "worked", True],
    ),
    "traces a process": ("result = [tried(syscall, 101, 0, 0, 0, 0), tried(syscall, 101, 16, 1, 0, 0)]", ["EPERM"] * 2),
    "reads another process's memory": (
        "result = [tried(syscall, 310, 1, 0, 0, 0, 0, 0), tried(syscall, 438, 1, 0, 0)]",
        ["EPERM"] * 2,
    ),
    "becomes root": (
        "result = [tried(os.setuid, 0), tried(os.setgid, 0), tried(os.setgroups, [0]), tried(os.chown, '/tmp', 0, 0)]",
        ["EINVAL", "EINVAL", "EPERM", "EINVAL"],
    ),
    "uses a program that becomes root": (
        """
def output(*command):
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).stdout
result = b'0' in output('/usr/bin/su', '-c', 'id -u')
""",
        False,
    ),
    "has capabilities": (
        "result = [l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')]",
        ["0000000000000000"] * 5,
    ),
    "makes a device": (
        """
block = tried(os.mknod, '/tmp/block', 0o600 | stat.S_IFBLK, os.makedev(254, 0))
result = [block, tried(syscall, 133, b'/tmp/null', 0o20600, 0x103)]
""",
        ["EPERM"] * 2,
    ),
    "mounts": (
        """
calls = [(165, b'none', b'/tmp', b'tmpfs', 0, 0), (166, b'/usr', 2), (428, -100, b'/', 1), (430, b'tmpfs', 0),
         (442, -100, b'/usr', 0, 0, 0)]
result = [tried(syscall, *call) for call in calls]
""",
        ["EPERM"] * 5,
    ),
    "changes its root": ("result = [tried(os.chroot, '/tmp'), tried(syscall, 155, b'/tmp', b'/tmp')]", ["EPERM"] * 2),
    "makes namespaces": (
        """
user, net = 0x10000000, 0x40000000
calls = [(272, user), (272, net), (56, user | 17, 0, 0, 0, 0), (435, 0, 0), (308, 0, 0)]
result = [tried(syscall, *call) for call in calls]
""",
        ["EPERM", "EPERM", "EPERM", "ENOSYS", "EPERM"],
    ),
    # Opened for writing and closed: writing would change the host if this ever worked.
    "changes the kernel's settings": (
        """
files = ('/proc/sys/kernel/core_pattern', '/proc/sys/vm/overcommit_memory', '/proc/sysrq-trigger')
result = [p for p in files if tried(lambda: os.close(os.open(p, os.O_WRONLY))) == 'worked']
""",
        [],
    ),
    "survives others when memory runs out": (
        """
before = open('/proc/self/oom_score_adj').read().strip()
def lower():
    with open('/proc/self/oom_score_adj', 'w') as file:
        file.write('-500')
result = [before, tried(lower)]
""",
        ["1000", "EACCES"],
    ),
    "uses the kernel's side doors": (
        """
numbers = (250, 248, 249, 425, 321, 298, 323, 300, 312, 135, 154, 175, 246, 169, 103)
result = [tried(syscall, number, 0, 0, 0, 0, 0) for number in numbers]
""",
        ["EPERM"] * 15,
    ),
    "types into a terminal": (
        "result = [tried(fcntl.ioctl, 0, 0x5412, b'x'), tried(fcntl.ioctl, 0, 0x541C, b'x')]",
        ["EPERM"] * 2,
    ),
    "makes memory that no limit counts": (
        """
calls = [(29, 0, 4096, 0o1600), (447, 0), (240, b'q', 0o102, 0o600, 0)]
result = [tried(os.memfd_create, 'x'), *(tried(syscall, *call) for call in calls)]
""",
        ["EPERM"] * 4,
    ),
    "uses another architecture's calls": (
        """
pid = os.fork()
if pid == 0:
    libc.syscall(ctypes.c_long(0x40000000 | 39))
    os._exit(0)
result = os.WTERMSIG(os.waitpid(pid, 0)[1])
""",
        31,
    ),
    "raises its limits": (
        """
def raised(name):
    which = getattr(resource, f'RLIMIT_{name}')
    hard = resource.getrlimit(which)[1]
    try:
        resource.setrlimit(which, (hard + 1, hard + 1))
    except ValueError:
        return False
    return True
result = [name for name in ('NPROC', 'AS', 'FSIZE', 'CPU', 'CORE', 'NOFILE') if raised(name)]
""",
        [],
    ),
    "writes where others would find it": (
        """
def plant(folder):
    os.close(os.open(folder + '/planted', os.O_CREAT | os.O_WRONLY))
folders = ('/', '/usr', '/etc', '/dev', '/stitch', '/stitch/child', '{python}/bin', '/proc')
result = [folder for folder in folders if tried(plant, folder) == 'worked']
""",
        [],
    ),
    "changes the code of its own bootstrap": (
        "result = tried(lambda: open('/stitch/child/main.py', 'a')) in ('EACCES', 'EROFS')",
        True,
    ),
    "fills its scratch space": (
        """
def fill(folder):
    block, written = bytes(1 << 20), 0
    try:
        with open(folder + '/fill', 'wb', buffering=0) as file:
            while written < 1 << 30:
                written += file.write(block)
    except OSError as error:
        outcome = errno.errorcode[error.errno]
    os.unlink(folder + '/fill')
    return outcome, written <= {tmp_bytes}
result = [fill(folder) for folder in ('/tmp', '/dev/shm')]
""",
        [["EFBIG", True], ["EFBIG", True]],
    ),
    "opens descriptors without end": (
        """
opened = []
try:
    while len(opened) < 100000:
        opened.append(os.dup(0))
except OSError as error:
    result = [errno.errorcode[error.errno], len(opened) <= 1024]
for fd in opened:
    os.close(fd)
""",
        ["EMFILE", True],
    ),
    "writes to a read-only memory": (
        """
fd, size = fds[0], os.fstat(fds[0]).st_size
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def remap():
    if libc.mmap(None, size, 3, 1, fd, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), '')
def protect():
    place = libc.mmap(None, size, 1, 1, fd, 0)
    if libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(size), 3):
        raise OSError(ctypes.get_errno(), '')
result = [tried(remap), tried(protect), tried(os.pwrite, fd, b'x', 0), tried(os.ftruncate, fd, 0),
          tried(os.ftruncate, fd, size + 1), tried(fcntl.fcntl, fd, 1033, 0)]
""",
        ["EPERM", "EACCES", "EPERM", "EPERM", "EPERM", "EPERM"],
    ),
    "shrinks an output memory to crash its reader": (
        "result = [tried(os.ftruncate, fds[1], 0), tried(os.ftruncate, fds[1], 8192)]",
        ["EPERM"] * 2,
    ),
}


FORBIDDEN = "EACCES"
_OPENED = """
def opened(path):
    return tried(lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
"""
WITHOUT_NAMESPACES: dict[str, tuple[str, object]] = ATTEMPTS | {
    "reads the password file": (_OPENED + "result = [opened(p) for p in ('/etc/passwd', '/etc/shadow')]", [FORBIDDEN] * 2),
    "lists the homes": ("result = [tried(os.listdir, p) for p in ('/', '/home', '/root')]", [FORBIDDEN] * 3),
    "reads the project": (
        _OPENED + "result = [opened('{project}/manage.py'), tried(os.listdir, '{project}')]",
        [FORBIDDEN] * 2,
    ),
    "reads a file of the host's /tmp": (_OPENED + "result = opened('{secret}')", FORBIDDEN),
    "reads variable data and services": (
        _OPENED + "result = [p for p in ('/var', '/run', '/srv', '/boot', '/sys', '/tmp') if opened(p) == 'worked']",
        [],
    ),
    "opens disks and the hypervisor": (
        _OPENED
        + "result = [p for p in ('/dev/vda', '/dev/sda', '/dev/mem', '/dev/kvm', '/dev/fuse') if opened(p) == 'worked']",
        [],
    ),
    "has only harmless devices": (
        _OPENED + "result = [tried(os.listdir, '/dev'), *(opened(p) for p in ('/dev/ptmx', '/dev/console'))]",
        [FORBIDDEN] * 3,
    ),
    "searches every environment and command line for the worker's secret": (
        _OPENED
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
