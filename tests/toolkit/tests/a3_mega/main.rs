//! Tests the workflows `a3-mega-slurm` and `a3-mega-slurm-lustre` unchanged: the local runner executes their steps, as for the
//! provisioner, with stand-ins for gcluster, terraform, packer, gcloud and the machines.

mod bed;
mod bucket;
mod faults;
mod kept;
mod nodes;
mod parameters;
mod scripts;
mod whole;
