//go:build linux

// Package e2e has the tests that run the real program: against OpenSSH's sshd in network namespaces, against virtual
// machines with kernels of their own, with faults, and beside other tools for the benchmarks. It is tests alone.
//
// They make their own namespaces and machines, and need root. `go test ./...` without FABRICFORM_E2E skips them;
// README.md says what runs them.
package e2e
