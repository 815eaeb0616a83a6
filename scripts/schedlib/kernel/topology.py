# SPDX-License-Identifier: GPL-2.0
"""The shape of a guest: sockets, NUMA nodes, clusters, cores and threads, as data in configs/topologies/."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields

from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS

MOST_CPUS = 64
"""What the kernels are built for. A guest without a topology has as many, online or not: fake ones are made of them."""


@dataclass(frozen=True)
class Topology:
    """A machine.

    Attributes:
        nodes: of NUMA, in the whole machine; the CPUs are split among them in order.
        clusters: in a socket. On arm64 they share the tags of a cache, on x86 the L2 cache.
        cores: in a cluster.
        threads: on a core.
        llcs: in a socket; more than one are what the kernel makes of one, on x86 by split_llc=.
        memoryless: of the nodes, the last so many have CPUs alone.
    """

    name: str
    sockets: int
    nodes: int
    clusters: int
    cores: int
    threads: int
    llcs: int = 1
    memoryless: int = 0

    @property
    def cpus(self) -> int:
        """All of them."""
        return self.sockets * self.clusters * self.cores * self.threads

    @property
    def arguments(self) -> tuple[str, ...]:
        """Kernel parameters that belong to the shape."""
        return (f"split_llc={self.llcs}",) if self.llcs > 1 else ()


def flat(cpus: int) -> Topology:
    """So many CPUs, and no more: a shape without a name."""
    return Topology("", 1, 1, 1, cpus, 1)


def load_topology(name: str) -> Topology:
    """A topology by name.

    Raises:
        SchedlineError: there is none of that name, or its file does not describe one.
    """
    directory = CONFIGS / "topologies"
    known = sorted(path.stem for path in directory.glob("*.toml"))
    if name not in known:
        raise SchedlineError(f"--topology: there is no {name!r}", f"choose one of {', '.join(known)}")
    path = directory / f"{name}.toml"
    try:
        row = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise SchedlineError(f"{path}: {error}", "correct the file") from error
    wanted = [field.name for field in fields(Topology) if field.name != "name" and field.default is MISSING]
    optional = {field.name for field in fields(Topology)} - {"name", *wanted}
    if set(row) - optional != set(wanted) or not all(type(value) is int and value > 0 for value in row.values()):
        raise SchedlineError(
            f"{path} has to hold a count for each of {', '.join(wanted)}, and may for {', '.join(sorted(optional))}",
            "correct the file",
        )
    topology = Topology(name, **row)
    if topology.cpus > MOST_CPUS or topology.cpus % topology.nodes or topology.memoryless >= topology.nodes:
        raise SchedlineError(
            f"{path}: {topology.cpus} CPUs in {topology.nodes} nodes: at most {MOST_CPUS}, as many in each node, "
            "and memory in one at least",
            "correct the file",
        )
    return topology


def qemu_words(topology: Topology, arch: str, memory: int) -> list[str]:
    """The words that give QEMU's machine this shape.

    Args:
        arch: make's ARCH.
        memory: MiB, split among the nodes.
    """
    clusters = "clusters" if arch == "arm64" else "modules"
    # x86 has no word for "no modules", and QEMU before 9.1 none for modules.
    level = f",{clusters}={topology.clusters}" if arch == "arm64" or topology.clusters > 1 else ""
    cores = f"cores={topology.cores},threads={topology.threads}"
    words = ["-smp", f"{topology.cpus},sockets={topology.sockets}{level},{cores}"]
    if arch != "arm64" and topology.clusters > 1:
        # Linux takes the CPUs below one L2 cache for a cluster, and asks for it on Intel's CPUs alone, by leaf 4 of
        # CPUID. Leaf 0x1f is cut off: QEMU 10.0.2 fails an assertion when Linux reads it. The last -cpu counts.
        words += [
            "-cpu",
            "max,vendor=GenuineIntel,level=0x1e",
            "-machine",
            "smp-cache.0.cache=l2,smp-cache.0.topology=module",
        ]
    size = topology.cpus // topology.nodes
    filled = topology.nodes - topology.memoryless
    for node in range(topology.nodes if topology.nodes > 1 else 0):
        cpus = f"node,nodeid={node},cpus={node * size}-{node * size + size - 1}"
        if node < filled:
            words += ["-object", f"memory-backend-ram,id=node{node},size={memory // filled}M"]
            cpus += f",memdev=node{node}"
        words += ["-numa", cpus]
    return words
