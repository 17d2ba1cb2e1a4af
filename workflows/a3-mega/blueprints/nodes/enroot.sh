#!/bin/bash
# The controller has no local disks, so it uses enroot's defaults.
rm -f /etc/enroot/enroot.conf
