"""Programs that try to break out of the sandbox. Each leaves what it achieved in `result`.

`ATTEMPTS` may share one sandbox: nothing in them ends it. Each value is the program and what `result` must be when it was
stopped. In `{braces}` stand facts of the host that the test fills in.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def filled(body: str, facts: Mapping[str, str]) -> str:
    """With the facts of the host where their names stand in braces."""
    for name, value in facts.items():
        body = body.replace(f"{{{name}}}", value)
    return body


ABSENT = "ENOENT"
OPENED = """
def opened(path):
    return tried(lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))
"""
BY_HANDLE = """
def handle():
    fd = os.pidfd_open({victim})
    try:
        signal.pidfd_send_signal(fd, 9)
    finally:
        os.close(fd)
"""
MAPPED = """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def mapped(size, flags):
    if libc.mmap(None, size, 3, flags, -1, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), '')
"""
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
    "asks what its first process may do": (
        """
limits = [resource.prlimit(1, getattr(resource, f'RLIMIT_{name}'))[1] for name in ('AS', 'FSIZE', 'CPU', 'CORE', 'NOFILE')]
status = dict(line.split(':', 1) for line in open('/proc/1/status') if ':' in line)
result = [resource.RLIM_INFINITY in limits, *(status[name].strip() for name in ('Seccomp', 'NoNewPrivs', 'CapEff', 'CapBnd'))]
""",
        [False, "2", "1", "0" * 16, "0" * 16],
    ),
    "goes to the host through another process": (
        "ways = ('root', 'cwd', 'cwd/../../..', 'task/1/root')\n"
        "result = [tried(os.stat, f'/proc/1/{way}{project}/manage.py') for way in ways]",
        [ABSENT] * 4,
    ),
    "reads the kernel's memory and messages": (
        OPENED
        + """
files = ('kcore', 'kmsg', 'sysrq-trigger', 'vmallocinfo', 'slabinfo', 'timer_list', 'pagetypeinfo', 'kpagecount')
def addresses():
    with open('/proc/kallsyms') as file:
        if any(int(line.split()[0], 16) for _, line in zip(range(100), file)):
            return 'addresses'
    raise OSError(errno.EACCES, '')
result = [f for f in files if opened('/proc/' + f) == 'worked'] + [tried(addresses)]
""",
        ["EACCES"],
    ),
    "takes huge pages of the machine": (
        MAPPED + "result = [tried(mapped, 2 << 20, 0x40022), tried(mapped, 1 << 30, 0x78040022)]",
        ["EPERM"] * 2,
    ),
    "reserves more addresses than any machine has memory": (MAPPED + "result = tried(mapped, 1 << 46, 0x4022)", "ENOMEM"),
    "puts itself before all others": (
        """
first = os.sched_param(1)
deadline = ctypes.create_string_buffer((48).to_bytes(4, 'little') + (6).to_bytes(4, 'little') + bytes(40))
result = [tried(os.sched_setscheduler, 0, os.SCHED_FIFO, first), tried(os.sched_setscheduler, 0, os.SCHED_RR, first),
          tried(syscall, 314, 0, ctypes.addressof(deadline), 0), tried(os.setpriority, os.PRIO_PROCESS, 0, -5),
          tried(os.setpriority, os.PRIO_USER, 0, -5), tried(syscall, 251, 1, 0, 1 << 13)]
""",
        ["EPERM", "EPERM", "EINVAL", "EACCES", "EACCES", "EPERM"],
    ),
    "signals by thread, by handle and by group": (
        BY_HANDLE
        + """
result = [tried(syscall, 234, {victim}, {victim}, 9), tried(syscall, 200, {victim}, 9), tried(handle),
          tried(os.killpg, {victim}, 9), tried(syscall, 129, {victim}, 9, 0)]
""",
        ["ESRCH", "ESRCH", "ESRCH", "ESRCH", "EFAULT"],
    ),
    "links to what it may not reach": (
        OPENED
        + """
mine = os.environ['TMPDIR']
os.symlink('/etc/shadow', mine + '/link')
os.symlink('{project}', mine + '/folder')
result = [opened(mine + '/link'), opened(mine + '/folder/manage.py'), tried(os.link, '/usr/bin/su', mine + '/su'),
          tried(os.rename, '/usr/bin/su', mine + '/su')]
os.unlink(mine + '/link'), os.unlink(mine + '/folder')
""",
        ["ENOENT", "ENOENT", "EXDEV", "EXDEV"],
    ),
    "unpacks an archive that climbs out": (
        """
import io, tarfile
def unpack(name):
    data, member = io.BytesIO(), tarfile.TarInfo(name)
    with tarfile.open(fileobj=data, mode='w') as archive:
        archive.addfile(member)
    data.seek(0)
    with tarfile.open(fileobj=data) as archive:
        archive.extractall(os.environ['TMPDIR'], filter='fully_trusted')
names = ('/usr/planted', '../../../../usr/planted', '/etc/planted')
result = [name for name in names if tried(unpack, name) == 'worked']
""",
        [],
    ),
    "makes a file that nobody can remove": (
        """
path = os.environ['TMPDIR'] + '/stays'
with open(path, 'w') as file:
    result = [tried(fcntl.ioctl, file.fileno(), 0x40086602, (0x10).to_bytes(8, 'little')),
              tried(os.setxattr, path, 'trusted.mine', b'x')]
os.unlink(path)
""",
        ["EPERM"] * 2,
    ),
    "gives a file the rights of root": (
        """
path = os.environ['TMPDIR'] + '/strong'
open(path, 'w').close()
every = (0x02000001).to_bytes(4, 'little') + b'\\xff\\xff\\xff\\xff\\x00\\x00\\x00\\x00' * 2
result = [tried(os.setxattr, path, 'security.capability', every), tried(os.chown, path, -1, 27), tried(os.chown, path, 0, -1)]
os.unlink(path)
""",
        ["EPERM", "EINVAL", "EINVAL"],
    ),
    "plants code that Python runs at its start": (
        """
import site, sysconfig
def plant(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.unlink(path)
system = {'/usr/lib/python3/dist-packages', os.path.dirname(os.__file__)}
folders = {*site.getsitepackages(), *sysconfig.get_paths().values(), *system}
# A checkout below /tmp: folders above what is bound in are the sandbox's own memory, and end with it.
folders = {f for f in folders if not os.path.isdir(f) or os.stat(f).st_dev != os.stat('/tmp').st_dev}
files = [f + '/' + name for f in folders for name in ('sitecustomize.py', 'zz.pth', 'usercustomize.py')]
result = [path for path in (*files, '/etc/ld.so.preload', '/etc/python3') if tried(plant, path) == 'worked']
""",
        [],
    ),
    "has a program of root load its library": (
        """
with open(os.environ['TMPDIR'] + '/mine.c', 'w') as file:
    file.write('')
environ = dict(os.environ, LD_PRELOAD=file.name, LD_AUDIT=file.name, GCONV_PATH=os.environ['TMPDIR'])
found = []
for command in (['/usr/bin/su', '-c', 'id -u'], ['/usr/bin/mount', '-o', 'bind', '/usr', '/tmp'], ['/usr/bin/passwd', '-S'],
                ['/usr/bin/newgrp', 'root'], ['/usr/bin/chsh', '-s', '/bin/sh']):
    if os.path.exists(command[0]):
        done = subprocess.run(command, env=environ, capture_output=True, stdin=subprocess.DEVNULL)
        found += [command[0]] if done.returncode == 0 else []
os.unlink(file.name)
result = found
""",
        [],
    ),
    "reads what is typed": (
        OPENED + "result = [tried(os.ttyname, 0), os.read(0, 1).decode(), opened('/dev/tty')]",
        ["ENOTTY", "", "ENXIO"],
    ),
    "learns the host's name": ("result = [socket.gethostname(), tried(syscall, 170, b'mine', 4)]", ["sandbox", "EPERM"]),
    "changes the clock": (
        """
past = (ctypes.c_long * 2)(1, 0)
result = [tried(syscall, 227, 0, past), tried(syscall, 164, past, 0), tried(syscall, 159, 0), tried(syscall, 305, 0, 0)]
""",
        ["EPERM"] * 4,
    ),
    "administers the machine": (
        """
numbers = (169, 167, 168, 179, 443, 320, 313, 176, 172, 173, 153, 304, 303, 440, 448, 279, 256, 427, 426)
result = [n for n in numbers if tried(syscall, n, 0, 0, 0, 0, 0) != 'EPERM']
""",
        [],
    ),
    "moves to another resource group": (
        """
def join(folder):
    with open(folder + '/cgroup.procs', 'w') as file:
        file.write(str(os.getpid()))
folders = ('/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/pids', '/sys/fs/cgroup/unified', '/dev/cgroup')
result = [folder for folder in folders if tried(join, folder) == 'worked']
""",
        [],
    ),
    "asks a program to write what its own rights do not allow": (
        """
path = os.environ['TMPDIR'] + '/answer'
done = subprocess.run(['/bin/sh', '-c', 'cat /etc/shadow {secret} > ' + path + '; ls {project} >> ' + path],
                      stdin=subprocess.DEVNULL, capture_output=True)
with open(path) as file:
    result = file.read()
os.unlink(path)
""",
        "",
    ),
}
