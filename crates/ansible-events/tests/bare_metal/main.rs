//! Tests of the unchanged workflow `dgx-slurm-perf`: its checks, its events, and its playbooks, which a real Ansible runs over ssh on the
//! machines of `tests/testbed/ansible`. Tests that need the test bed are `ignored`; the gate `.ci/ansible.sh` runs them in the required
//! order.

mod agent;
mod bed;
mod cluster;
mod deepops;
mod parameters;
mod workspace;
mod wrong;
