# SPDX-License-Identifier: GPL-2.0
"""`schedline run`: workloads and tools on this machine, each run a file; what they amount to is judged apart."""
