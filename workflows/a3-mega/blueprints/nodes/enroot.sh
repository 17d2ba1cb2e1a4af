#!/bin/bash
# The controller has no local disks: enroot's own defaults are right there.
rm -f /etc/enroot/enroot.conf
