"""The system calls that a sandboxed process may not make, as a classic BPF program.

A deny-list: CUDA, compilers and torch use too many calls for an allow-list to survive an upgrade. What is denied is what
reaches other processes, the kernel's configuration, new namespaces, the network, or memory that no limit counts.
"""

from __future__ import annotations

import errno
import platform
import socket
import stat
import struct

from gpu_runner.hands import HandsError

# name: (x86_64, aarch64); None where the architecture has no such call. From the kernel's syscall tables.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448), "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # keys, programs in the kernel, tracing, asynchronous side doors around this filter
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "lookup_dcookie": (212, 18),
    # mounts, roots and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "mknod": (133, None), "mknodat": (259, 33),
    # the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "create_module": (174, None), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "iopl": (172, None), "ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "personality": (135, 92), "modify_ldt": (154, None), "vhangup": (153, 58), "uselib": (134, None), "nfsservctl": (180, 42),
    # memory and queues outside the address space and the sized file systems
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195),
    "shmdt": (67, 197), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "mq_timedsend": (242, 182), "mq_timedreceive": (243, 183), "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR, _IOCTL = (56, 220), (435, 435), (41, 198), (53, 199), (16, 29)
_PRLIMIT, _MMAP = (302, 261), (9, 222)
_MAP_HUGETLB = 0x40000
# time, mount, cgroup, uts, ipc, user, pid and net namespaces
_NAMESPACE_FLAGS = 0x80 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000

_LOAD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NR, _ARCH, _ARG0, _ARG1, _ARG2, _ARG3 = 0, 4, 16, 24, 32, 40  # offsets in struct seccomp_data; the low halves of the arguments


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _refuse(number: int) -> bytes:
    return _op(_RET, 0x00050000 | number)


def program(machine: str | None = None, sockets: bool = True, pipes: bool = False, loopback: bool = False) -> bytes:
    """The filter for `machine` (default: this one). Raises HandsError on an architecture of unknown call numbers.

    `sockets` False, for a boundary that hides no file: Unix sockets come in connected pairs only, of kinds that reach nobody
    else, and no limit of another process can be set. `pipes`: named pipes may be made, which compute-sanitizer speaks through.
    `loopback`, for a network namespace of its own alone: IPv4 sockets too, which the profilers speak through.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise HandsError(f"There is no system-call filter for {machine}; run the hands on x86_64 or aarch64.")
    column, audit = _ARCHITECTURES[machine]
    ops = [_op(_LOAD, _ARCH), _op(_JEQ, audit, 1, 0), _op(_RET, _KILL), _op(_LOAD, _NR)]
    if machine == "x86_64":
        ops += [_op(_JGE, _X32, 0, 1), _op(_RET, _KILL)]
    if pipes:
        ops += [_op(_JEQ, DENIED["mknodat"][column] or 0, 0, 5), _op(_LOAD, _ARG2), _op(_AND, stat.S_IFMT(0xFFFF))]
        ops += [_op(_JEQ, stat.S_IFIFO, 1, 0), _refuse(errno.EPERM), _op(_RET, _ALLOW)]
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            ops += [_op(_JEQ, number, 0, 1), _refuse(errno.EPERM)]
    # clone3 hides its flags behind a pointer that no filter can follow; libc falls back to clone when it is missing.
    ops += [_op(_JEQ, _CLONE3[column], 0, 1), _refuse(errno.ENOSYS)]
    ops += [_op(_JEQ, _CLONE[column], 0, 4), _op(_LOAD, _ARG0), _op(_JSET, _NAMESPACE_FLAGS, 0, 1), _refuse(errno.EPERM)]
    ops += [_op(_RET, _ALLOW)]
    # Reserved huge pages of the machine, which the group's memory limit does not count.
    ops += [_op(_JEQ, _MMAP[column], 0, 4), _op(_LOAD, _ARG3), _op(_JSET, _MAP_HUGETLB, 0, 1), _refuse(errno.EPERM)]
    ops += [_op(_RET, _ALLOW)]
    # An empty network namespace still has AF_VSOCK (to the hypervisor) on many kernels.
    if not sockets:
        ops += [_op(_JEQ, _SOCKET[column], 0, 1), _refuse(errno.EAFNOSUPPORT)]
        # A datagram names its receiver, whatever its socket is connected to; the low bits are the kind, the high ones flags.
        ops += [_op(_JEQ, _SOCKETPAIR[column], 0, 5), _op(_LOAD, _ARG1), _op(_AND, 0xF)]
        ops += [_op(_JEQ, socket.SOCK_DGRAM, 1, 0), _op(_JEQ, socket.SOCK_RAW, 0, 1), _refuse(errno.EAFNOSUPPORT)]
        ops += [_op(_LOAD, _NR)]
        ops += [_op(_JEQ, _PRLIMIT[column], 0, 4), _op(_LOAD, _ARG0), _op(_JEQ, 0, 1, 0), _refuse(errno.EPERM)]
        ops += [_op(_RET, _ALLOW)]
    for call in (_SOCKET, _SOCKETPAIR):
        families = (socket.AF_UNIX, *((socket.AF_INET,) if loopback else ()))
        ops += [_op(_JEQ, call[column], 0, 3 + len(families)), _op(_LOAD, _ARG0)]
        ops += [_op(_JEQ, family, len(families) - n, 0) for n, family in enumerate(families)]
        ops += [_refuse(errno.EAFNOSUPPORT), _op(_RET, _ALLOW)]
    ops += [_op(_JEQ, _IOCTL[column], 0, 5), _op(_LOAD, _ARG1)]
    ops += [_op(_JEQ, _TERMINAL_INJECTION[0], 1, 0), _op(_JEQ, _TERMINAL_INJECTION[1], 0, 1), _refuse(errno.EPERM)]
    ops += [_op(_RET, _ALLOW)]
    return b"".join([*ops, _op(_RET, _ALLOW)])
