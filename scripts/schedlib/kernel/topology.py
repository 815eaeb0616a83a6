# SPDX-License-Identifier: GPL-2.0
"""The shape of a guest: sockets, NUMA nodes, clusters, cores and threads, as data in configs/topologies/."""

from __future__ import annotations

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import nearest, read_toml, refuse
from schedlib.formats.strict import Count, Positive, Strict
from schedlib.options import MOST_CPUS
from schedlib.paths import CONFIGS


class Topology(Strict, frozen=True):
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
    sockets: Positive
    nodes: Positive
    clusters: Positive
    cores: Positive
    threads: Positive
    llcs: Positive = 1
    memoryless: Count = 0

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
        raise SchedlineError(f"--topology: there is no {name!r}", nearest(name, known))
    path = directory / f"{name}.toml"
    topology = read_toml(path, Topology, stem="name")
    if topology.cpus > MOST_CPUS:
        refuse(path, (), f"has {topology.cpus} CPUs", f"write {MOST_CPUS} at most")
    if topology.cpus % topology.nodes:
        refuse(path, ("nodes",), f"does not divide the {topology.cpus} CPUs", "write as many CPUs for each node")
    if topology.memoryless >= topology.nodes:
        refuse(path, ("memoryless",), f"leaves none of {topology.nodes} nodes with memory", "leave memory in one")
    return topology
