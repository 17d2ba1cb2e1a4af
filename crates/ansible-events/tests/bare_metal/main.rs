//! The workflow `dgx-slurm-perf` unchanged: its checks, its playbooks by a real Ansible over real ssh on the machines
//! of `tests/testbed/ansible`, and its events. Tests that need the test bed are `ignored`; the gate `.ci/ansible.sh`
//! runs them, some before others.

mod agent;
mod asked;
mod bed;
mod cluster;
mod deepops;
mod workspace;
mod wrong;
