//! Scripts of nodes and jobs, each by itself.
