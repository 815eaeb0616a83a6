# SPDX-License-Identifier: GPL-2.0
"""The shape of a guest: sockets, NUMA nodes, clusters, cores and threads, as data in configs/topologies/."""

from __future__ import annotations

from schedlib.formats.data_file import read_toml, refuse
from schedlib.formats.strict import Count, Positive, Strict
from schedlib.options import MOST_CPUS
from schedlib.paths import CONFIGS


class Topology(Strict, frozen=True):
    """The shape of a machine.

    Attributes:
        nodes: NUMA nodes of the whole machine; the CPUs are split among them in order.
        clusters: clusters per socket. On arm64 the CPUs of one share the tags of a cache, on x86 the L2 cache.
        cores: cores per cluster.
        threads: threads per core.
        llcs: LLCs per socket. If more than one, the kernel splits the socket's one LLC (x86 only, split_llc=).
        memoryless: number of nodes without memory; these are the last ones.
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
        """The number of CPUs of the whole machine."""
        return self.sockets * self.clusters * self.cores * self.threads

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel parameters that this shape needs."""
        return (f"split_llc={self.llcs}",) if self.llcs > 1 else ()


def flat(cpus: int) -> Topology:
    """One socket, node and cluster, one thread per core."""
    return Topology("", 1, 1, 1, cpus, 1)


def shape_of(name: str | None, cpus: int) -> Topology:
    """A topology by name; without a name a flat one."""
    return load_topology(name) if name else flat(cpus)


def load_topology(name: str) -> Topology:
    """A topology by name; SchedlineError if there is none of that name, or its file is invalid."""
    path = CONFIGS / "topologies" / f"{name}.toml"
    topology = read_toml(path, Topology, stem="name")
    if topology.cpus > MOST_CPUS:
        refuse(path, (), f"has {topology.cpus} CPUs", f"write {MOST_CPUS} at most")
    if topology.cpus % topology.nodes:
        refuse(path, ("nodes",), f"does not divide the {topology.cpus} CPUs", "give each node the same number of CPUs")
    if topology.memoryless >= topology.nodes:
        said = f"leaves none of {topology.nodes} nodes with memory"
        refuse(path, ("memoryless",), said, "leave memory in at least one")
    return topology
