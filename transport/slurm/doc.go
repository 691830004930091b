// Package slurm is the way to hosts that are nodes of a Slurm cluster: no SSH, no keys. Cluster, on a login or controller node, holds a
// small allocation on the nodes, starts helpers in it by srun, and takes their connections at its door; DialBack is the helper's side.
// It also drains nodes and resumes them. Slurm's and munge's own programs are its only interfaces.
package slurm
