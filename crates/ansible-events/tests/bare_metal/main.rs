//! The workflow `dgx-slurm-perf` as it is: its checks, its playbooks by a real Ansible over real ssh on the machines of
//! `tests/testbed/ansible`, and what its events say. Those tests that need more than this crate are `ignored`; the gate
//! `.ci/ansible.sh` runs them, some before others.

mod asked;
mod bed;
mod cluster;
mod deepops;
mod workspace;
mod wrong;
