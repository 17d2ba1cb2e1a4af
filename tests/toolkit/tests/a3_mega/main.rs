//! The workflows `a3-mega-slurm` and `a3-mega-slurm-lustre` as they are: their steps by the local runner, as the provisioner
//! calls them, over stand-ins for gcluster, terraform, packer, gcloud and the machines.

mod bucket;
mod faults;
mod kept;
mod nodes;
mod parameters;
mod scripts;
mod whole;
mod world;
